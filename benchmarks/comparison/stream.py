"""What a bare program reaches over TCP: one process sends, another receives; or both do both at once.

Arguments: connect or listen; the address where one listens; one-way (from connect to listen) or both-ways; seconds. Who
receives prints bytes per second.
"""

import socket
import sys
import threading
import time

PORT = 29501
CHUNK_BYTES = 1 << 20
WARM_UP_S = 0.2  # congestion windows grow, and what the token bucket had saved is spent
JOIN_LIMIT_S = 20


def send(connection, seconds):
    chunk = bytes(CHUNK_BYTES)
    end = time.perf_counter() + 2 * WARM_UP_S + seconds
    while time.perf_counter() < end:
        connection.sendall(chunk)
    connection.shutdown(socket.SHUT_WR)


def receive(connection, seconds):
    """To the end of the stream; returns the bytes per second after the warm-up."""
    chunk = bytearray(CHUNK_BYTES)
    first = last = begin = None
    received = 0
    while size := connection.recv_into(chunk):
        now = time.perf_counter()
        first = first or now
        if begin is None and now - first >= WARM_UP_S:
            begin = now
        elif begin is not None and now - begin <= seconds:
            received += size
            last = now
    if not received:
        sys.exit("the stream ended before it was measured")
    return received / (last - begin)


def connected(side, address):
    if side == "listen":
        with socket.create_server((address, PORT)) as listener:
            listener.settimeout(JOIN_LIMIT_S)
            connection = listener.accept()[0]
            connection.settimeout(JOIN_LIMIT_S)
            return connection
    end = time.monotonic() + JOIN_LIMIT_S
    while True:
        try:
            return socket.create_connection((address, PORT), timeout=JOIN_LIMIT_S)
        except OSError:  # the other side does not listen yet
            if time.monotonic() > end:
                raise
            time.sleep(0.01)


def main():
    side, address, ways, seconds = sys.argv[1:]
    with connected(side, address) as connection:
        sender = threading.Thread(target=send, args=(connection, float(seconds)), daemon=True)
        if side == "connect" or ways == "both-ways":
            sender.start()
        if side == "listen" or ways == "both-ways":
            print(f"{receive(connection, float(seconds)):.0f}")
        if sender.ident:
            sender.join()


main()
