"""May this principal call this number with this agent now? One pure file a rule, over facts that were gathered once."""
