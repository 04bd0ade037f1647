"""Fetch the data sets that the other commands read, or take them from your own copies.

    python -m data_scripts.download --list
    python -m data_scripts.download stsbenchmark snli cqa
    python -m data_scripts.download senteval    # all sets of SentEval, in its own layout
    python -m data_scripts.download stsbenchmark --from ~/Stsbenchmark.tar.gz
"""

if not __package__:
    raise SystemExit("run it by name, in the repository: python -m data_scripts.download")

import os
import shutil
import sys
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from convsim_mini.common.cli import Parser, UserError, errors_in_one_line, path_of
from convsim_mini.common.files import locked, workplace
from data_scripts.archives import (
    archive_errors, archive_of, choose_outermost, fetch_archive, part_of, unpack_archive)
from data_scripts.check import compare
from data_scripts.registry import GROUPS, REGISTRY


def add_set(name, data, own_copy=None):
    """Bring a data set into its folder below data, from its sources, or from a user's own copy.

    own_copy: a folder, an archive, or None. Files already in the folder are compared and kept.
    Raises UserError.
    """
    dataset = REGISTRY[name]
    folder = data / dataset.folder
    for archive in dataset.archives:
        compare_files(name, {file: folder / file.name for file in archive.files})
        archive = archive._replace(
            files=[file for file in archive.files if not (folder / file.name).exists()])
        if not archive.files:
            continue
        with staging(folder, archive) as stage:
            if own_copy:
                copy_own(name, archive, own_copy, stage)
            else:
                try_sources(name, archive, data / "downloads", stage)
    files = [file.name for archive in dataset.archives for file in archive.files]
    missing = [file for file in files if not (folder / file).exists()]
    if len(missing) == len(files):
        raise UserError(f"--from {own_copy}: holds no file of {name}; expected {', '.join(files)}, "
                        "in any folder or in the official archive")
    print(f"{name}: in {folder}" + (f", without {', '.join(missing)}" if missing else ""))


@contextmanager
def staging(folder, archive):
    """Yield a folder to unpack an archive in. At the end, files that `folder` lacks move there.

    After an error, none of them do.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with workplace(folder) as work:
            stage = work / "files"
            stage.mkdir()
            yield stage
            names = {file.fetched: file.name for file in archive.files}
            for path in stage.iterdir():
                target = folder / names.get(path.name, path.name)
                if not target.exists():
                    if archive.without:
                        path.write_bytes(path.read_bytes().translate(None, archive.without))
                    target.parent.mkdir(parents=True, exist_ok=True)
                    os.replace(path, target)
    finally:
        with suppress(OSError):                               # if it is empty
            folder.rmdir()


def try_sources(name, archive, downloads, stage):
    """Fetch an archive from the first source that has the right one; unpack it into stage."""
    downloads.mkdir(parents=True, exist_ok=True)
    try:
        with locked(downloads, f"{downloads}: another download is running there; wait for it, or "
                    "choose another folder with --data"):
            for source in archive.sources:
                if try_source(name, archive, source, downloads, stage):
                    return
    finally:
        with suppress(OSError):                               # unless a .part is in it
            downloads.rmdir()
    raise UserError(f"{name}: no source gave it, for the reasons above; try again later, or get "
                    f"{archive_of(archive.sources[0])} by other means and name it "
                    "with --from PATH")


def try_source(name, archive, source, downloads, stage):
    """Whether a source gave the official archive, which is then unpacked in stage.

    If not, the reason is printed, and stage is empty. The archive is removed.
    """
    print(f"{name}: fetching {source.url}", flush=True)
    try:
        path, checksum = fetch_archive(source, downloads, REGISTRY[name].limit)
    except UserError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return False
    print(f"{name}: {path.name}: {checksum}")
    try:
        with naming_origin(path, stage), archive_errors(path):
            unpack_official(name, archive, path, stage)
    except UserError as error:
        print(f"{name}: {error}", file=sys.stderr)
        shutil.rmtree(stage)
        stage.mkdir()
        path.unlink()
        return False
    path.unlink()
    for other in archive.sources:                             # no one needs their .part any more
        part_of(other, downloads).unlink(missing_ok=True)
    return True


def unpack_official(name, archive, path, stage):
    """Unpack a fetched archive. Raises UserError if it is not exactly the official one."""
    dataset = REGISTRY[name]
    wanted = [file.fetched for file in archive.files] + list(dataset.extras)
    found = unpack_archive(path, wanted, stage, dataset.limit)
    for file in archive.files:
        if file.fetched not in found:
            raise UserError(f"{path}: holds no {file.fetched}; expected the official archive")
        report, problem = compare(stage / file.fetched, file, dataset.kind)
        if problem:
            raise UserError(f"{path}: {file.name}: {report}; expected the official archive")
        print(f"{name}: {file.name}: {report}")


def copy_own(name, archive, own_copy, stage):
    """Take an archive's files from a user's own copy.

    own_copy: an archive, or a folder that holds the files or archives at any depth. Of several
    files with one name, the one in a folder named as ours is taken: many years have a file for
    headlines.
    """
    dataset = REGISTRY[name]
    wanted = {file.fetched for file in archive.files} | set(dataset.extras)
    archives = [own_copy]
    if own_copy.is_dir():
        inside = [path.relative_to(own_copy).as_posix()
                  for path in own_copy.rglob("*") if path.is_file()]
        found = choose_outermost(inside, wanted)
        for file in archive.files:
            ours = PurePosixPath(dataset.folder, file.name)
            alike = [path for path in inside if PurePosixPath(path).parts[-2:] == ours.parts[-2:]]
            for path in choose_outermost(alike, {ours.name}).values():
                found[file.fetched] = path
        for file, path in found.items():
            shutil.copyfile(own_copy / path, stage / file)
        names = {archive_of(source) for source in archive.sources}
        archives = [own_copy / path for path in choose_outermost(inside, names).values()]
    for path in archives:
        here = {path.name for path in stage.iterdir()}
        if not here.issuperset(file.fetched for file in archive.files):
            unpack_archive(path, wanted - here, stage, dataset.limit)
    with naming_origin(own_copy, stage):
        compare_files(name, {file: stage / file.fetched for file in archive.files})


def compare_files(name, paths):
    """Compare those files that exist with the official ones, and print the result.

    paths: File → path. Files with fewer or more rows pass. Raises UserError for a file with the
    right number of rows but another first pair.
    """
    for file, path in paths.items():
        if path.exists():
            report, problem = compare(path, file, REGISTRY[name].kind)
            if problem == "first":
                raise UserError(f"{path}: {report}; this is a translation or another data set: "
                                "replace it with the original")
            print(f"{name}: {file.name}: {report}{' (taken as it is)' if problem else ''}")


@contextmanager
def naming_origin(origin, stage):
    """In a UserError, name the place that a staged file came from: the stage will be gone."""
    try:
        yield
    except UserError as error:
        raise UserError(str(error).replace(str(stage), str(origin))) from None


def lines_of_list(name, data):
    """What --list shows of one data set."""
    dataset = REGISTRY[name]
    files = [data / dataset.folder / file.name
             for archive in dataset.archives for file in archive.files]
    here = sum(path.exists() for path in files)
    state = {0: "not here", len(files): "here"}.get(here, f"{here} of {len(files)} files here")
    lines = [f"{name}: {state}", f"    for      {dataset.use}", f"    licence  {dataset.licence}"]
    for archive in dataset.archives:
        first, *others = archive.sources
        fallbacks = ", ".join(urlsplit(source.url).hostname for source in others)
        lines.append(f"    source   {first.url}{f' (else {fallbacks})' if others else ''}")
    return "\n".join(lines)


def parse_options(argv):
    """The command's options."""
    parser = Parser("data_scripts.download", __doc__)
    parser.add_argument("names", nargs="*", metavar="NAME",
                        help=f"data sets: {', '.join([*REGISTRY, *GROUPS])}")
    parser.add_argument("--list", action="store_true",
                        help="show every data set and whether it is here, then stop")
    parser.add_argument("--data", type=path_of, default=Path("data"),
                        help="folder to put them in (default: data)")
    parser.add_argument("--from", type=path_of, dest="own_copy", metavar="PATH",
                        help="your own copy: an archive, or a folder of files or archives")
    options = parser.parse_intermixed_args(argv)
    options.names = [name for of in options.names for name in GROUPS.get(of, [of])]
    if unknown := [name for name in options.names if name not in REGISTRY]:
        raise UserError(f'"{unknown[0]}": no such data set; expected '
                        f'{", ".join([*REGISTRY, *GROUPS])}')
    if not options.names and not options.list:
        raise UserError("no data set is named; --list shows them")
    if options.own_copy and not options.own_copy.exists():
        raise UserError(f"--from {options.own_copy}: is not there; expected an archive or a folder")
    return options


@errors_in_one_line()
def main(argv=None):
    """The command: each data set in turn; one that fails does not stop the others."""
    options = parse_options(sys.argv[1:] if argv is None else argv)
    if options.list:
        print("\n".join(lines_of_list(name, options.data) for name in REGISTRY))
        print("\n".join(f"{name}: {', '.join(sets)}" for name, sets in GROUPS.items()))
        print("No address above has been tried with this program yet.")
        return
    errors = []
    for name in dict.fromkeys(options.names):
        try:
            add_set(name, options.data, options.own_copy)
        except UserError as error:
            errors.append(error)
        except OSError as error:
            errors.append(f"{name}: {error}; make room, or choose another folder with --data")
    for error in errors[:-1]:                                 # a line for each data set
        print(f"error: {UserError(error)}", file=sys.stderr)
    if errors:
        raise UserError(errors[-1])


if __name__ == "__main__":
    main()
