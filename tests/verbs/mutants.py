#!/usr/bin/env python3
"""Makes one mistake after another in transports/verbs, on purpose, and checks that tests/verbs finds each.

    tests/verbs/mutants.py [--build build/dev] [WORD]    # those whose name has the word

A mistake replaces one piece of text in a copy of one source, which is compiled and linked with what the build has. Exit
status 0: the tests fail with every mistake, and pass without one. Takes the time of a compilation for each.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIMIT_S = 240  # tests that wait for what never comes end after 20 s each
# Of what a header's mistakes are in.
USERS = {"sender.h": ["sender.cpp", "link_lanes.cpp"], "lane.h": ["link_lanes.cpp", "link.cpp"],
         "link.h": ["link.cpp", "link_connect.cpp", "link_lanes.cpp", "transport.cpp"],
         "exports.h": ["exports.cpp"]}
TEST = "tests/verbs/test_verbs"
SUITE = "tests/transports/test_transport_conformance"  # of every transport
LIBRARY = "transports/verbs/libtutti_verbs.a"

# Name, source in transports/verbs, what stands there, what takes its place, and where TEST does not look, who does.
MUTANTS = [
    ("data takes the last credit", "sender.h", "has_room(2) && credits() > 1", "has_room(2) && credits() > 0"),
    ("no look at the credits", "sender.h", "has_room(2) && credits() > 1", "has_room(2)"),
    ("no look at the queue's room", "sender.h", "posted_ - completed_ + requests <= kSends", "requests <= kSends"),
    ("a block is used while a device reads it", "sender.h",
     "return block_users_[blocks_used_ % kBlocks] <= completed_;", "return true;"),
    ("credits are not returned on their own", "sender.cpp", "if (owes && has_room(1) && credits() >= least)",
     "if (owes && has_room(1) && credits() >= 1000)"),
    ("messages tell of no credits", "sender.cpp", "head.reposted = static_cast<uint32_t>(told_);", ""),
    ("nothing asks for a completion", "sender.cpp", "request.work.send_flags |= IBV_SEND_SIGNALED;", ""),
    ("the message goes without its payload", "sender.cpp",
     "  write.work.next = &message.work;\n  post(write.work);\n}\n\nvoid VerbsSender::post",
     "  post(message.work);\n}\n\nvoid VerbsSender::post"),
    ("what is larger goes inline too", "sender.cpp", "if (size <= queue_.inline_bytes())", "if (size > 0)"),
    ("memory is the caller's before it has left", "sender.cpp",
     "    keep({.put = number, .request = posted_, .registration = registration, .stage = stage});\n", ""),
    ("copied memory is the caller's before it is confirmed", "sender.cpp",
     "      keep({.put = put_.number, .request = posted_});\n", ""),
    ("a piece goes where the one before went", "sender.cpp", "put_.to.address += piece.size();", ""),
    ("what a failed lane had received is sent again", "sender.cpp",
     "each.is_owed && each.message > received", "each.is_owed"),
    ("a lost credit ends the link", "sender.cpp", "if (gone.is_owed) confirmed_", "if (gone.message != 0) confirmed_"),
    ("a channel has no lane of its own", "link_lanes.cpp",
     "own != nullptr && load_of(*own) <= load_of(*least) + kMostBehind ? own : least", "least"),
    ("what is composed for a channel has no lane", "link_lanes.cpp", "lane_of(channel, []", "lane_of(channel + 1, []"),
    ("a channel keeps to a lane that is far behind", "link_lanes.cpp",
     " && load_of(*own) <= load_of(*least) + kMostBehind", ""),
    ("the payload under way is forgotten with its lane", "sender.cpp", "if (put_.active) owed.push_back",
     "if (false) owed.push_back"),
    ("messages take effect as they come", "receiver.cpp",
     "if (head.number > applied_ + 1) return keep(head, rest);", ""),
    ("early messages are forgotten", "receiver.cpp",
     "early_.try_emplace(head.number, Early{head, {rest.begin(), rest.end()}}).second", "true"),
    ("any number of early messages is kept", "receiver.cpp", "if (early_.size() == kMostEarly) {", "if (false) {"),
    ("an early message may come twice", "receiver.cpp", "return is_new ? Status() : twice(head);", "return {};"),
    ("a message of no known kind is news", "receiver.cpp", "if (!has_number(head.kind)) {", "if (false) {"),
    ("a message that comes twice takes effect twice", "receiver.cpp",
     "if (head.number <= applied_) return twice(head);", ""),
    ("a peer takes back what its links live in", "link.cpp",
     "      if (stays) return error", "      if (false) return error", SUITE),
    ("messages name memory that was released", "link_lanes.cpp",
     "  gather_news();  // messages may not name what is this rank's no more\n", "", SUITE),
    ("a payload goes on into memory that was released", "link.cpp", "    TUTTI_TRY(Status(ended_));\n", ""),
    ("what a failed device refuses makes other memory give way", "exports.cpp",
     "return {.registrations = nullptr, .why = std::move(why), .is_full = true};\n    if (!one.ok()) continue;",
     "return {.registrations = nullptr, .why = std::move(why), .is_full = true};\n"
     "    if (!one.ok()) return {.registrations = nullptr, .why = std::move(why), .is_full = true};"),
    ("memory must be reached by lanes that are over", "link.cpp", "    if (!lanes_[i]->is_in_use()) continue;\n", ""),
    ("a link with a full queue does not wait until all has arrived", "link.cpp",
     "    while (!lane->sender().all_completed() && !lane->broken() && !deadline.passed()) {\n"
     "      lane->sender().ask_for_all();  // which needs room for a request\n",
     "    lane->sender().ask_for_all();\n"
     "    while (!lane->sender().all_completed() && !lane->broken() && !deadline.passed()) {\n"),
    ("a link waits for a peer that has ended", "link.cpp", "      if (!side_->receive().ok()) return;", "      "),
    ("a link does not say what it has gone over to", "link.h", 'is_over_tcp_ ? "tcp" : ""', '""'),
    ("a failed lane is told of before it is drained", "link_lanes.cpp",
     "lane.state() == VerbsLane::State::kShut && lane.is_drained()", "lane.state() == VerbsLane::State::kShut"),
    ("a lane that the peer has lost stays in use", "link_lanes.cpp",
     "  lane.note_lost_by_peer();\n  if (lane.is_in_use()) lose(lane);\n", ""),
    ("what is owed goes before the peer has answered", "link_lanes.cpp",
     "lane.state() == VerbsLane::State::kTold && lane.peer_received",
     "lane.state() == VerbsLane::State::kTold && (lane.peer_received = lane.peer_received.value_or(0))"),
    ("what stands in the way ends the link where it is about to sleep", "link.cpp",
     "  if (stage_ != Stage::kDone) return false;  // connect()", "  // connect()"),
    ("what is refused is forgotten", "sender.cpp",
     "if (first != nullptr && refused_.ok()) refused_ = queue_.post(*first);",
     "if (first != nullptr) (void)queue_.post(*first);"),
    ("a batch does not leave when it ends", "sender.cpp", "  in_batch_ = false;\n  ring();\n",
     "  in_batch_ = false;\n"),
    ("each request of a batch has a doorbell", "sender.cpp", "if (!in_batch_) ring();", "ring();"),
    ("the last of a batch goes alone", "sender.cpp",
     "(first_kept_ == nullptr ? first_kept_ : last_kept_->next) = &first;", "first_kept_ = &first;"),
    ("what waits for a doorbell waits for a copy", "sender.cpp",
     "  ring();  // what came before leaves meanwhile\n", ""),
    ("a device that is gone is waited for", "lane.h",
     "posted_receives_ == 0 || is_deaf_ || is_swept_", "posted_receives_ == 0"),
    ("data goes over tcp before both have told what came", "link_lanes.cpp",
     "if (is_all_over() && !is_over_tcp_)", "if (has_lost_all() && !is_over_tcp_)"),
    ("what is owed is forgotten where tcp alone is left", "link_lanes.cpp",
     "sent = TUTTI_TRY(send_beside(next.head, next.line, payload, is_put ? next.put : 0));",
     "sent = PutResult::kDone;"),
    ("memory is the caller's before tcp has taken it", "link.cpp",
     "if (is_over_tcp_) oldest = std::min(oldest, side_->oldest_put());", ""),
    ("a payload over tcp that comes in pieces ends early", "side_channel.cpp",
     "to = to.subspan(got);", "to = to.first(0);"),
    ("an event that was taken is not asked for again", "queue_pair.cpp", "is_asked_ = !take_event() && !has_taken_;",
     "take_event();"),
    ("an event that comes late ends every sleep", "queue_pair.cpp", "(has_taken_ || in_vain)", "has_taken_"),
    ("every sleep looks for late events", "queue_pair.cpp", "(has_taken_ || in_vain)", "true"),
    ("what had completed wakes nobody", "link.cpp", "  waits.wake_now();\n  return true;", "  return true;"),
    ("memory that is held makes room for other", "exports.cpp",
     "each->first == kArena || other.holders > 0;", "each->first == kArena;"),
    ("the host reads small payloads of a GPU", "sender.cpp",
     "payload.device == nullptr && head.payload_memory", "head.payload_memory"),
    ("the host writes small payloads to a GPU", "sender.cpp",
     "payload.device == nullptr && head.payload_memory < kFirstDeviceId", "payload.device == nullptr"),
    ("a GPU's payload is not read into its block", "sender.cpp",
     "  else if (unreadable_.ok()) unreadable_ = device->read({block, from.size()}, from.data());\n", ""),
    ("a GPU that cannot be read is not told of", "link.cpp",
     "    if (status.ok()) status = lane->sender().unreadable();\n", ""),
    ("what comes for a GPU is stored over what came before", "receiver.cpp",
     "  bytes = bytes.subspan(from.size());\n", ""),
    ("a line may go to a GPU", "receiver.cpp", "at == nullptr || place.device != nullptr ||", "at == nullptr ||"),
    ("a dma-buf is taken from its start", "device.cpp", "buffer.offset, bytes.size()", "0, bytes.size()"),
    ("memory of a GPU counts as locked", "exports.h", "return memory.device ? 0 : memory.bytes.size();",
     "return memory.bytes.size();"),
    ("no write may be reordered", "device.cpp", "IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING",
     "IBV_ACCESS_LOCAL_WRITE"),
    ("writes to a GPU may be reordered", "device.cpp", "IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);",
     "IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_RELAXED_ORDERING);"),
    ("what was confirmed and lost is passed over", "sender.cpp", "if (received < confirmed_) {", "if (false) {"),
    ("what a device refuses is not pending", "link.cpp", "lane->is_in_use() ? !lane->sender().refused().ok() :",
     "lane->is_in_use() ? false :"),
    ("nothing of a GPU's is copied", "link.cpp", "bool may_be_a_gpus = !from.empty() && ", "bool may_be_a_gpus = "),
    ("what one device refused all do", "exports.cpp", "    exported.refused = 0;  // not by this one\n", ""),
    ("freed memory of a GPU is still a source", "exports.cpp",
     "if (holder == nullptr || (holder->memory.device != nullptr && holder->holders == 0)) return std::nullopt;",
     "if (holder == nullptr) return std::nullopt;"),
    ("the last source may be a GPU's that has been freed", "link.cpp",
     "if (!holds() || source_->device != nullptr)", "if (!holds())"),
    ("registered memory of a GPU is copied where it is small", "link.cpp",
     "from.size() < kLeastInPlace && payload.device == nullptr", "from.size() < kLeastInPlace"),
]


def commands_of(build):
    """How the objects of the library are compiled, by source, and how the tests are linked, by test."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        compiles = {os.path.basename(each["file"]): (each["command"], each["directory"])
                    for each in json.load(file) if "/transports/verbs/" in each["file"]}
    links = {}
    for test in (TEST, SUITE):
        asked = ["ninja", "-C", build, "-t", "commands", "-s", test]
        links[test] = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip().splitlines()[-1]
    return compiles, links


def check_texts():
    """That each mistake takes the place of one piece of text."""
    for name, source, old, *_ in MUTANTS:
        with open(os.path.join(REPOSITORY, "transports", "verbs", source), encoding="utf-8") as file:
            count = file.read().count(old)
        if count != 1:
            sys.exit(f"{name}: {source} has {count} times: {old}")


def run(words, **options):
    subprocess.run(words, check=True, **options)


def build_mutant(build, commands, folder, source, old, new, test=TEST):
    """The path of the test program with that mistake."""
    compiles, links = commands
    sources = os.path.join(folder, "transports", "verbs")
    run(["cp", "-r", os.path.join(REPOSITORY, "transports", "verbs"), sources])
    path = os.path.join(sources, source)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace(old, new) if old else text)
    library = os.path.join(folder, "libmutant.a")
    program = os.path.join(build, os.path.dirname(test), "mutant")  # where it finds the libraries of the build
    run(["cp", os.path.join(build, LIBRARY), library])
    for name in USERS.get(source, [source]):
        command, directory = compiles[name]
        words = shlex.split(command)
        # Under the name that it has in the library, where it takes the other one's place.
        words[words.index("-o") + 1] = os.path.join(folder, name + ".o")
        words[words.index("-c") + 1] = os.path.join(sources, name)
        run([*words, f"-iquote{folder}"], cwd=directory)
        run(["ar", "r", library, os.path.join(folder, name + ".o")], capture_output=True)
    link = links[test].replace(f" {LIBRARY}", f" {library}").replace(f"-o {test}", f"-o {program}")
    run(link, shell=True, cwd=build)
    return program


def is_found(program):
    """Whether the tests fail, or never end."""
    try:
        return subprocess.run([program, "--abort"], capture_output=True, timeout=LIMIT_S, check=False).returncode != 0
    except subprocess.TimeoutExpired:
        return True


def try_mutant(build, commands, *mutant):
    """Whether the tests find that mistake."""
    with tempfile.TemporaryDirectory(prefix="tutti-mutant-") as folder:
        os.makedirs(os.path.join(folder, "transports"))
        program = build_mutant(build, commands, folder, *mutant)
        try:
            return is_found(program)
        finally:
            os.remove(program)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(REPOSITORY, "build", "dev"), help="a build with its tests")
    parser.add_argument("word", nargs="?", default="")
    arguments = parser.parse_args()
    build = os.path.abspath(arguments.build)
    check_texts()
    commands = commands_of(build)
    # Built as they are with a mistake, but without one.
    if any(try_mutant(build, commands, "wire.cpp", "", "", test) for test in (TEST, SUITE)):
        sys.exit("the tests fail without any mistake")
    missed = []
    for name, *mutant in MUTANTS:
        if arguments.word not in name:
            continue
        found = try_mutant(build, commands, *mutant)
        print(f"{'found ' if found else 'MISSED'}  {name}", flush=True)
        if not found:
            missed.append(name)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
