"""Soft foot contacts from height and speed, and the soft period of a gait from contacts."""

from motionkit.rigs.contacts._feet import find_feet
from motionkit.rigs.contacts._period import soft_period
from motionkit.rigs.contacts._soft import ContactSpec, contact_score, soft_contacts

__all__ = ["ContactSpec", "contact_score", "find_feet", "soft_contacts", "soft_period"]
