"""OAuth 2.1 beside API keys: the resource server, and an authorization server of its own on Authlib."""
