"""A Twilio to test against: REST, callbacks, TwiML and ConversationRelay in a process of its own.

It knows nothing of the program under test. README.md says how a person runs and drives it.
"""
