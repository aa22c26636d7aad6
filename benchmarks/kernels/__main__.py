"""Record the resources of all kernels and write docs/kernels.md; `make kernels` runs this with ptxas installed.

- `python -m benchmarks.kernels`: compile all kernels, write the record and the page.
- `... --only SimpleTag-v0`: compile these environments and networks again and replace them in the record.
- `... --check`: compile, and fail if a kernel spills or exceeds the record; nothing is written.
- `... --page`: write the page from the record.
"""

import argparse
import sys

from benchmarks.hardware.provenance import ROOT, THREADS
from benchmarks.kernels import budgets, measurement, page
from benchmarks.kernels.assembler import AssemblerError
from benchmarks.kernels.networks import networks
from benchmarks.kernels.programs import subjects
from benchmarks.kernels.words import SUBJECTS, count_accesses


def main(argv: list[str]) -> int:
    """Record, check or write the page; return 1 if a kernel spills or, with ``--check``, exceeds its budget."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kernels", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    names = [*subjects(), *networks()]
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=names, help="compile these subjects only")
    parser.add_argument("--check", action="store_true", help="compare with the record and write nothing")
    parser.add_argument("--page", action="store_true", help="write the page from the record and compile nothing")
    parser.add_argument("--processes", type=int, default=THREADS, help="number of processes (default: one per core)")
    args = parser.parse_args(argv)
    if args.page:
        page.write(budgets.load())
        return 0
    try:
        jobs = measurement.all_jobs(args.only or names)
        measured = measurement.measure(jobs, args.processes, with_bytes=not args.check, progress=True)
    except AssemblerError as error:
        print(error, file=sys.stderr)
        return 1
    record = budgets.load() if args.check or args.only else measured
    if not args.check:
        if args.only and record["versions"] != measured["versions"]:
            print(f"--only: expected {record['versions']}, got {measured['versions']}; record all", file=sys.stderr)
            return 1
        merged = {"versions": measured["versions"]}
        for section in ("environments", "networks"):
            combined = record[section] | measured[section]
            merged[section] = {name: combined[name] for name in names if name in combined}
        counted = [name for name in SUBJECTS if not args.only or name in args.only]
        merged["words"] = record.get("words", {}) | {name: count_accesses(name) for name in counted}
        record = merged
        budgets.save(record)
        page.write(record)
        print(f"written: {budgets.RECORD.relative_to(ROOT)}, {page.PAGE.relative_to(ROOT)}")
    problems = budgets.violations(record, measured)
    for line in problems:
        print(line, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
