"""What is kept for the next kernel: where, what of it is shared, and that all is as before once it is switched off."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from types import CodeType

import pytest

from ipy_dynwrap import persist
from ipy_dynwrap.persist_sizes import Store, content

VARIABLE = persist.VARIABLE


@pytest.fixture(autouse=True)
def off(monkeypatch, tmp_path):
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield
    persist.switch_off()


def code_of(source: str, file: str = "a.py") -> CodeType:
    return compile(source, file, "exec")


def test_on_and_off_leaves_no_variable(tmp_path):
    assert persist.switch_on(tmp_path).directory == tmp_path
    assert os.environ[VARIABLE] == str(tmp_path)
    persist.switch_off()
    assert VARIABLE not in os.environ
    assert persist.kept() is None


def test_the_directory_that_torch_chose_by_itself_comes_back(tmp_path, monkeypatch):
    chosen = str(persist._torchs_own_directory())
    monkeypatch.setenv(VARIABLE, chosen)
    persist.switch_on(tmp_path)
    assert os.environ[VARIABLE] == str(tmp_path)
    persist.switch_off()
    assert os.environ[VARIABLE] == chosen


def test_what_the_user_has_set_is_kept_and_not_replaced(tmp_path, monkeypatch):
    own = tmp_path / "own"
    monkeypatch.setenv(VARIABLE, str(own))
    with pytest.raises(persist.PersistError, match=f"{VARIABLE} is set to"):
        persist.switch_on(tmp_path / "other")
    assert not (tmp_path / "other").exists()
    assert persist.switch_on().directory == own
    assert f"({VARIABLE} says so)" in persist.report()
    persist.switch_off()
    assert os.environ[VARIABLE] == str(own)


def test_what_somebody_sets_later_stays(tmp_path):
    persist.switch_on(tmp_path)
    os.environ[VARIABLE] = "/elsewhere"
    persist.switch_off()
    assert os.environ[VARIABLE] == "/elsewhere"


def test_default_directory_is_in_the_cache_directory_of_the_user(tmp_path):
    assert persist.switch_on().directory == tmp_path / "cache" / "ipy_dynwrap"


def test_a_directory_that_cannot_be_written_is_one_sentence_and_changes_nothing(tmp_path):
    (tmp_path / "file").write_text("")
    persist.switch_on(tmp_path / "good")
    with pytest.raises(persist.PersistError, match="cannot be written to: Not a directory"):
        persist.switch_on(tmp_path / "file" / "inner")
    assert os.environ[VARIABLE] == str(tmp_path / "good")


def test_another_directory_replaces_the_first(tmp_path):
    persist.switch_on(tmp_path / "a")
    persist.switch_on(tmp_path / "b")
    assert os.environ[VARIABLE] == str(tmp_path / "b")
    persist.switch_off()
    assert VARIABLE not in os.environ


def test_a_setting_that_cannot_be_is_said_and_is_no_error(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    persist.follow(str(tmp_path / "file"))
    assert "DynWrap.persist: " in capsys.readouterr().err
    assert persist.kept() is None
    persist.follow("")
    assert persist.kept() is not None
    persist.follow(None)
    assert persist.kept() is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_ends_it_for_itself_only(tmp_path):
    persist.switch_on(tmp_path)
    child = os.fork()
    if child == 0:
        persist.switch_off()
        os._exit(VARIABLE in os.environ)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert os.environ[VARIABLE] == str(tmp_path)
    assert persist.kept() is not None


def test_nothing_imports_torch():
    script = (
        "import sys; from ipy_dynwrap import persist; persist.switch_on(sys.argv[1])\nprint('torch' in sys.modules)"
    )
    directory = os.environ["XDG_CACHE_HOME"]
    done = subprocess.run([sys.executable, "-c", script, directory], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("def f(x): return x + 1", "\n# moved\ndef f(x):\n  return x + 1", True),
        ("def f(x): return x + 1", "def f(x): return x + 2", False),
        ("def f(x): return x + 1", "def f(x): return x + 1.0", False),
        ("def f(x): return x + 1", "def f(x): return x + True", False),
        ("def f(x): return -0.0", "def f(x): return 0.0", False),
        ("def f(x): return x.a", "def f(x): return x.b", False),
        ("def f(x): return (lambda: 1)", "def f(x): return (lambda: 2)", False),
    ],
)
def test_content_is_what_code_does_and_not_where_it_stands(one, other, same):
    assert (content(code_of(one)) == content(code_of(other, "b.py"))) is same


def test_content_is_the_same_under_another_hash_seed():
    script = (
        "from ipy_dynwrap.persist_sizes import content; print(content(compile(\"x in {'a', 'b', 'c'}\", '', 'eval')))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(found) == 1


def test_content_includes_functions_that_are_closed_over():
    def made(helper):
        def f(x):
            return helper(x)

        return content(f.__code__, f.__closure__)

    assert made(lambda x: x + 1) == made(lambda x: x + 1)
    assert made(lambda x: x + 1) != made(lambda x: x + 2)


def test_knowledge_is_joined_and_of_one_purpose(tmp_path):
    store, key = Store(tmp_path, "a.ipynb"), ("f",)
    assert store.read(key) == {}
    store.add(key, {"L['x']": [True, [True, None], None]})
    store.add(key, {"L['x']": [True, [None, True], None], "L['y']": [True, True, True]})
    assert store.read(key) == {"L['x']": [True, [True, True], None], "L['y']": [True, True, True]}
    store.add(key, {"L['x']": [True, [True], None]})  # another number of dimensions: any
    assert store.read(key)["L['x']"] == [True, True, None]
    assert Store(tmp_path, "b.ipynb").read(key) == {}
    assert store.read(("g",)) == {}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"x": 1}', '{"x": [1, 2]}', '{"x": [true, "a", null]}', "\0"])
def test_a_broken_file_is_no_knowledge(tmp_path, text):
    store = Store(tmp_path, "")
    store.add(("f",), {"x": [True, True, True]})
    (file,) = tmp_path.iterdir()
    file.write_text(text)
    assert store.read(("f",)) == {}
    store.add(("f",), {"x": [True, True, True]})
    assert store.read(("f",)) == {"x": [True, True, True]}


def test_writers_at_once_leave_whole_files_and_nothing_else(tmp_path):
    stores = [Store(tmp_path, "") for _ in range(4)]
    seen = []

    def write(store, number):
        for each in range(50):
            store.add(("f",), {f"x{number}.{each}": [True, None, None]})
            seen.append(bool(store.read(("f",))))

    threads = [threading.Thread(target=write, args=pair) for pair in zip(stores, range(4), strict=True)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(seen) == 200
    assert all(seen)
    assert len(list(tmp_path.iterdir())) == 1
