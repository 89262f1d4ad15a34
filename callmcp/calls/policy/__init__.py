"""May this principal call this number with this agent now? One pure file a rule: it raises Refused, or nothing."""
