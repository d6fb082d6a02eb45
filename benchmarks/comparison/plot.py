"""Time over size, a panel for each table and a line for each library."""

import math

SUFFIXES = (".svg", ".png")
# The same in every panel.
COLORS = {"tutti": "tab:blue", "tutti-mem": "tab:cyan", "tutti-reg": "tab:olive",
          "openmpi": "tab:orange", "openmpi-ucx": "goldenrod", "mpich": "tab:green", "gloo": "tab:red",
          "ucc": "tab:purple", "oneccl": "tab:brown",
          "torch-gloo": "tab:pink", "limit": "black", "limit-mem": "gray", "copy": "tan",
          "malloc-1": "tab:blue", "malloc-2": "tab:cyan", "mem-1": "tab:olive", "mem-2": "tab:green"}


def refusal(path):
    """Why no plot can be drawn, or nothing."""
    if not path.endswith(SUFFIXES):
        return f"--plot {path}: the file's name ends in .svg or .png"
    try:
        import matplotlib  # pylint: disable=import-outside-toplevel,unused-import
    except ImportError:
        return "--plot needs matplotlib: install Debian's python3-matplotlib, or use a python3 that has it"
    return ""


def line_of(table, library):
    """Sizes and medians."""
    result = table.results[library.name]
    points = [(size, result.median(size)) for size in table.sizes if result.median(size) is not None]
    return [size for size, _ in points], [median for _, median in points]


def style_of(library):
    styles = {"own": {"linewidth": 2.4, "marker": "o"}, "peer": {"linewidth": 1.2, "marker": "."},
              "limit": {"linewidth": 1.2, "linestyle": ":"}, "copy": {"linewidth": 1.2, "linestyle": ":"}}
    return dict(styles[library.role], markersize=4, label=library.name, color=COLORS[library.name.removesuffix("-tcp")])


def draw_panel(axes, table, where, size_text):
    for library in table.libraries:
        sizes, medians = line_of(table, library)
        if sizes:
            axes.plot(sizes, medians, **style_of(library))
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    ticks = table.sizes[::max(1, len(table.sizes) // 5)]
    axes.set_xticks(ticks, [size_text(size) for size in ticks])
    axes.minorticks_off()
    axes.set_title(f"{table.collective}, {table.ranks} ranks, {where}", fontsize=10)
    axes.set_xlabel("size")
    axes.set_ylabel("microseconds")
    axes.grid(True, linewidth=0.3)
    axes.legend(fontsize=7)


def draw(tables, where, size_text, title, path):
    import matplotlib  # pylint: disable=import-outside-toplevel
    matplotlib.use("Agg")
    from matplotlib import pyplot  # pylint: disable=import-outside-toplevel
    columns = min(3, len(tables))
    lines = math.ceil(len(tables) / columns)
    figure, panels = pyplot.subplots(lines, columns, squeeze=False, figsize=(5.2 * columns, 4.2 * lines))
    for number, panel in enumerate(panels.flat):
        if number < len(tables):
            draw_panel(panel, tables[number], where[tables[number].table], size_text)
        else:
            panel.set_axis_off()
    figure.suptitle(title, fontsize=10)
    figure.tight_layout()
    figure.savefig(path)
