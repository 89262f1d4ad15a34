import sqlite3
import stat
from contextlib import closing
from pathlib import Path

from tests.cli.conftest import Callmcp


def test_upgrading_makes_a_database_that_is_up_to_date(callmcp: Callmcp, data: Path) -> None:
    assert callmcp("db", "upgrade").returncode == 0

    assert (data / "callmcp.db").is_file()
    assert callmcp("db", "current").returncode == 0
    assert callmcp("db", "upgrade").returncode == 0, "twice is no fault"


def test_a_database_of_another_version_is_not_current(callmcp: Callmcp, data: Path) -> None:
    data.mkdir()
    (data / "callmcp.db").touch()

    done = callmcp("db", "current")

    assert done.returncode == 1
    assert "callmcp db upgrade" in done.stderr


def test_a_backup_is_a_private_copy_and_overwrites_nothing(callmcp: Callmcp, tmp_path: Path) -> None:
    callmcp("init")
    copy = tmp_path / "copy.db"

    assert callmcp("db", "backup", str(copy)).returncode == 0

    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("SELECT count(*) FROM agents").fetchone() == (1,)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    again = callmcp("db", "backup", str(copy))
    assert again.returncode == 1
    assert str(copy) in again.stderr
