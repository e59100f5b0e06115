"""What can go wrong with a PostgreSQL server or a run directory, each with a code and what to do next."""

from __future__ import annotations


class ClusterError(Exception):
    """Base of the errors of this package. `code` is stable; the text says what to do next."""

    code = "cluster.failed"


class BinariesMissing(ClusterError):
    """The wheel with the PostgreSQL binaries is absent or lacks the version asked for."""

    code = "cluster.binaries_missing"


class AccountRefused(ClusterError):
    """PostgreSQL refuses root, and no unprivileged user can be used instead."""

    code = "cluster.account_refused"


class RunDirectoryRefused(ClusterError):
    """The place for run directories cannot be used: not writable, full, not ours, or too long a path."""

    code = "cluster.run_directory_refused"


class StaleDirectory(ClusterError):
    """A data directory is already there, and is not one that this object made."""

    code = "cluster.stale_directory"


class DiskFull(ClusterError):
    """The file system has no room left for the server."""

    code = "cluster.disk_full"


class PortBusy(ClusterError):
    """The port asked for, or every port tried, belongs to another program."""

    code = "cluster.port_busy"


class NotOurServer(ClusterError):
    """Somebody else's server answers where ours should."""

    code = "cluster.not_our_server"


class ServerFailed(ClusterError):
    """initdb or the server ended or hung; the last lines of its log are in the text."""

    code = "cluster.server_failed"


class SettingRefused(ClusterError):
    """A server setting has a name or value that cannot be written into a configuration file."""

    code = "cluster.setting_refused"


class DsnMalformed(ClusterError):
    """The text given as DSN cannot be parsed."""

    code = "cluster.dsn_malformed"


class ServerUnreachable(ClusterError):
    """Nothing answers under the DSN, or not in time."""

    code = "cluster.server_unreachable"


class PasswordRefused(ClusterError):
    """The server refuses the user, the password or the host."""

    code = "cluster.password_refused"


class DatabaseMissing(ClusterError):
    """The server has no database of that name."""

    code = "cluster.database_missing"


class ServerTooOld(ClusterError):
    """The server is older than PostgreSQL 15."""

    code = "cluster.server_too_old"


class ServerReadOnly(ClusterError):
    """The server is a standby, or sessions are read-only, or the user may not create a schema."""

    code = "cluster.server_read_only"


class DurabilityWeak(ClusterError):
    """The server may lose acknowledged commits by its settings."""

    code = "cluster.durability_weak"


class Unavailable(ClusterError):
    """This rung of the ladder cannot be used here; the text is the reason. Tests skip with it."""

    code = "cluster.unavailable"
