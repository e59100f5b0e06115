"""Durable flows on PostgreSQL: declare a flow, start it, and it ends, whatever happens to the processes that run it."""

from ninelives.capability import AtMostOnce, Capability, Done, Idempotent, Transactional, Unknown, Voided, capability
from ninelives.capture import Call
from ninelives.client import Client, Handle, connect
from ninelives.errors import (
    InstanceConflict,
    InstanceFailed,
    InstanceFinished,
    InstanceUnknown,
    LeaseLost,
    NinelivesError,
    PayloadRefused,
    PermanentError,
    PlanMismatch,
    PlanRefused,
    SchemaMissing,
    SchemaTooNew,
    SettingRefused,
    StepTimedOut,
    StoreUnavailable,
)
from ninelives.flow import Branch, Case, Flow
from ninelives.ids import instance_id_for
from ninelives.migrate import migrate
from ninelives.node import Node
from ninelives.retry import RetryPolicy
from ninelives.settings import Settings
from ninelives.state import State

__all__ = [
    "AtMostOnce",
    "Branch",
    "Call",
    "Capability",
    "Case",
    "Client",
    "Done",
    "Flow",
    "Handle",
    "Idempotent",
    "InstanceConflict",
    "InstanceFailed",
    "InstanceFinished",
    "InstanceUnknown",
    "LeaseLost",
    "NinelivesError",
    "Node",
    "PayloadRefused",
    "PermanentError",
    "PlanMismatch",
    "PlanRefused",
    "RetryPolicy",
    "SchemaMissing",
    "SchemaTooNew",
    "SettingRefused",
    "Settings",
    "State",
    "StepTimedOut",
    "StoreUnavailable",
    "Transactional",
    "Unknown",
    "Voided",
    "capability",
    "connect",
    "instance_id_for",
    "migrate",
]
