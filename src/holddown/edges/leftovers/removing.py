"""Removal of one file or private folder. Every step looks again before it acts; no link is followed."""

import os
import shutil
from pathlib import Path

from holddown.edges.leftovers.looking import file_form, file_id, found
from holddown.edges.leftovers.sole import InUse, alone, check_unbound, opened_folder
from holddown.facts.leftovers import Form, FoundFile, Kept, Removed


def remove(file: FoundFile) -> Removed | Kept:
    """Nothing goes that is not the very file that was judged."""
    try:
        with opened_folder(Path(file.path).parent) as folder:
            name = Path(file.path).name
            _check_same(name, folder, file)
            if file.form is Form.FOLDER:
                _remove_tree(name, folder, file)
            else:
                _unlink(name, folder, file)
    except FileNotFoundError:
        return Removed(file.path)
    except InUse as changed:
        return Kept(file.path, str(changed))
    except OSError as error:
        return Kept(file.path, error.strerror or str(error))
    return Removed(file.path)


def _check_same(name: str, folder: int, file: FoundFile) -> None:
    there = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if (file_id(there), there.st_uid, file_form(there.st_mode)) != (file.id, file.owner_uid, file.form):
        raise InUse("another file has taken its place")
    if file.form is not Form.FOLDER and (there.st_mtime, there.st_ctime) != (file.modified_at, file.changed_at):
        raise InUse("it changed since it was looked at")


def _unlink(name: str, folder: int, file: FoundFile) -> None:
    if file.form is Form.SOCKET:
        check_unbound(name, folder)
        _check_same(name, folder, file)
        os.unlink(name, dir_fd=folder)
        return
    with alone(name, folder) as there:
        if file_id(there) != file.id:
            raise InUse("another file has taken its place")
        _check_same(name, folder, file)
        os.unlink(name, dir_fd=folder)


def _remove_tree(name: str, folder: int, file: FoundFile) -> None:
    """All of a private folder or nothing of it: each file in it is asked for first."""
    path = Path(file.path)
    for now in found(path, file.kind):
        if now != file:
            raise InUse("something in it changed since it was looked at")
    for place, _, files in os.walk(path):
        with opened_folder(Path(place)) as inner:
            for one in files:
                form = file_form(os.stat(one, dir_fd=inner, follow_symlinks=False).st_mode)
                if form is Form.SOCKET:
                    check_unbound(one, inner)
                elif form is Form.FILE:
                    with alone(one, inner):
                        pass
    _check_same(name, folder, file)
    shutil.rmtree(name, dir_fd=folder)
