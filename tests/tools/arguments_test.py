"""What the command lines of all subcommands have in common: unknown options, sizes, help."""

import harness
from harness import ToolTest


class Wrong(ToolTest):
    def check_refused(self, arguments, sentence):
        done = self.tutti(*arguments)
        self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
        self.assertEqual(done.stderr.splitlines(), [sentence])

    def test_options_that_are_nearly_right_name_the_right_one(self):
        for command, word, right in ((("run",), "--rank", "--ranks"), (("bench", "all_reduce"), "--rank", "--ranks"),
                                     (("bench", "all_reduce"), "--minbyte", "--minbytes"),
                                     (("bench", "all_reduce"), "--warmup-iters", "--warmup_iters"),
                                     (("topo",), "--calib", "--calibrate"), (("plan",), "-ranks", "--ranks"),
                                     (("plan", "all_reduce"), "--rank", "--ranks"), (("options",), "--hlep", "--help")):
            name = " ".join(["tutti", *(["plan"] if command[0] == "plan" else command)])
            for arguments in ((word, 3), (f"{word}=3",)):
                with self.subTest(command=command, arguments=arguments):
                    self.check_refused((*command, *arguments), f"{name}: there is no option {word}; did you mean "
                                                               f"{right}?")

    def test_options_unlike_any_other_name_the_help(self):
        for command in (("run",), ("bench", "all_reduce"), ("topo",), ("plan",), ("options",), ("version",)):
            name = " ".join(["tutti", *command])
            for word in ("--no-such-flag", "-q"):
                with self.subTest(command=command, word=word):
                    self.check_refused((*command, word), f"{name}: there is no option {word}; `{name} --help` lists "
                                                         "them")

    def test_options_before_a_subcommand_are_looked_for_there(self):
        self.check_refused(("--verison", "version"),
                           "tutti version: there is no option --verison; did you mean --version?")

    def test_hidden_options_are_not_suggested(self):
        self.check_refused(("bench", "all_reduce", "--as-ran"), "tutti bench all_reduce: there is no option --as-ran; "
                                                                "`tutti bench all_reduce --help` lists them")

    def test_words_too_many_are_named(self):
        self.check_refused(("topo", "here"),
                           'tutti topo: "here" is one argument too many; `tutti topo --help` explains the usage')


class Sizes(ToolTest):
    def test_that_are_none_are_refused_alike_by_all(self):
        bench = ("bench", "all_reduce")
        for text in ("12X", "-8", "+8", "K", "1.5K", "8B", "64KBB", "0x10", " 8"):
            for command, option, name in ((("plan", "all_reduce"), "--bytes", "--bytes"), (bench, "--minbytes", "-b"),
                                          (bench, "--maxbytes", "-e"), (bench, "--stepbytes", "-i")):
                with self.subTest(option=option, text=text):
                    done = self.tutti(*command, f"{option}={text}")
                    self.assertEqual((done.returncode, done.stdout), (2, ""))
                    self.assertRegex(done.stderr, r"^tutti (plan|bench all_reduce): .*\n$")
                    self.assertIn(f": {name} {text}: expected a number of bytes such as 8, 64K, 256M or 1G\n",
                                  done.stderr)

    def test_take_binary_units(self):
        for text, shown in (("64", "64 B"), ("64k", "64 KiB"), ("64KB", "64 KiB"), ("1MiB", "1 MiB"), ("2g", "2 GiB")):
            self.assertIn(f"all_reduce of {shown} (", self.tutti("plan", "all_reduce", "-n", 2, "-b", text).stdout)

    def test_beyond_any_memory_are_refused(self):
        for text in ("1025T", "99999999999999999999999"):
            self.assertIn(", at most 1024T\n", self.tutti("plan", "all_reduce", "-b", text).stderr)


class Options(ToolTest):
    def test_show_words_for_what_is_no_quantity_and_units_for_what_is_one(self):
        self.environment.update(TUTTI_CHANNELS="4", TUTTI_SPIN_US="7", TUTTI_YIELD_US="-1",
                                TUTTI_SLICE_BYTES="automatic")
        done = self.tutti("options")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for line in ("TUTTI_CHANNELS +4 ", "TUTTI_SPIN_US +7 us ", "TUTTI_YIELD_US +automatic ",
                     "TUTTI_SLICE_BYTES +automatic ", "TUTTI_RANK +none "):
            word = "none" if "RANK" in line else "automatic"
            self.assertRegex(done.stdout, rf"(?m)^{line}\(default {word}\): ")
        self.assertRegex(done.stdout, r"(?m)^TUTTI_SLOT_BYTES +automatic \(default automatic\): ")
        self.assertRegex(done.stdout, r"(?m)^TUTTI_TIMEOUT_MS +600000 ms \(default 600000 ms\): ")


class Help(ToolTest):
    def help_of(self, *command):
        done = self.tutti(*command, "--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def test_of_run_shows_where_the_command_goes(self):
        self.assertIn("\nUsage: tutti run [OPTIONS] [--] COMMAND [ARG...]\n", self.help_of("run"))

    def test_of_a_subcommand_has_examples_of_this_one_only(self):
        for command in ("run", "topo", "plan", "bench", "options", "version"):
            _, _, examples = self.help_of(command).partition("Example")
            for line in examples.splitlines():
                if line.startswith("  "):
                    self.assertIn(f"tutti {command}", line)

    def test_of_the_tool_has_examples_of_several(self):
        self.assertIn("tutti plan all_reduce", self.help_of())


if __name__ == "__main__":
    harness.main()
