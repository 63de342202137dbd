"""Accounts with a password each, of which those of the admins exist before students can sign up.

NativeAuthenticator makes an admin of whoever signs up first under an admin's name, and whom an admin shuts out stays
signed in. Here the hub makes the accounts of admins itself when it starts, before it listens, signing up under such a
name fails, and whoever is shut out is out at once.
"""

import os
import secrets
import sys
from pathlib import Path

import nativeauthenticator
from jupyterhub import orm
from nativeauthenticator import NativeAuthenticator
from nativeauthenticator.handlers import DiscardHandler, ToggleAuthorizationHandler
from tornado import web

TEMPLATES = Path(nativeauthenticator.__file__).parent / "templates"
"""The pages of the hub with links to the pages of accounts. Without this setting JupyterHub shows pages of its own."""

SHORTEST = 12
"""The least length of an admin's password that is given."""

LONGEST = 72
"""The most bytes of a password that bcrypt reads: older releases ignore what follows, newer ones fail."""

PASSWORDS = ("password", "signup_password", "old_password", "new_password")
"""The fields of the forms for signing up, logging in, and changing a password."""


class ClassAccounts(NativeAuthenticator):
    """NativeAuthenticator for a class: students sign up, admins let them in, and no admin is made by signing up."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        admins = sorted(map(self.normalize_username, self.admin_users))
        found = {name: self.get_user(name) for name in admins}
        for name, account in found.items():
            if account is not None and not self._rules(name):
                raise ValueError(
                    f"HUB_ADMINS: somebody has signed up as {name!r}. Take another name, or first make {name!r} an "
                    "admin on the page Admin"
                )
        for name, account in found.items():
            if account is None:
                self._make_admin(name)
            else:
                account.is_authorized = True  # an admin may have shut out the last one
        self.db.commit()

    def create_user(self, username, password, **kwargs):
        """Make the account of somebody who signs up.

        Raises:
            HTTPError: the name is that of an admin, of HUB_ADMINS or of the page of admins.
        """
        name = self.normalize_username(username)
        if name in set(map(self.normalize_username, self.admin_users)) or self._rules(name):
            self.log.warning("somebody tried to sign up under the name of an admin")
            raise web.HTTPError(403, "This name is taken. Choose another one.")
        return super().create_user(username, password, **kwargs)

    async def refresh_user(self, user, *_):
        """Whether somebody who is signed in still may be: an admin can have shut the account out since."""
        account = self.get_user(user.name)
        return account is not None and bool(account.is_authorized)

    def get_handlers(self, app):
        """The pages of accounts, which refuse passwords that bcrypt does not read, and orders from other sites."""
        changed = {ToggleAuthorizationHandler: (_Leaving, _Ordered), DiscardHandler: (_Ordered,)}
        return [
            (path, type(page.__name__, (*changed.get(page, ()), _Form, page), {}))
            for path, page in super().get_handlers(app)
        ]

    def _rules(self, name):
        """Whether the hub knows a user of this name as an admin."""
        user = orm.User.find(self.db, name)
        return user is not None and user.admin

    def _make_admin(self, name):
        """Make the account of an admin: with the password of HUB_ADMIN_PASSWORD, or with one that is printed once.

        Raises:
            ValueError: the password is too short, too long or too common, or no account can have the name.
        """
        given = os.environ.get("HUB_ADMIN_PASSWORD", "")
        if given and len(given) < SHORTEST:
            raise ValueError(f"HUB_ADMIN_PASSWORD is to have at least {SHORTEST} characters")
        if len(given.encode()) > LONGEST:
            raise ValueError(f"HUB_ADMIN_PASSWORD is to have at most {LONGEST} bytes")
        password = given or secrets.token_urlsafe(18)
        if not self.is_password_strong(password):
            raise ValueError("HUB_ADMIN_PASSWORD is too common")
        if super().create_user(name, password) is None:
            raise ValueError(f"the admin {name!r} cannot have an account: HUB_ADMINS is to hold names as students have")
        if not given:
            text = f"The admin {name} logs in with the password {password}\nIt is shown only now. Change it there."
            print(text, file=sys.stderr, flush=True)


class _Form:
    """A page with a form, which takes no password of which bcrypt would not read all."""

    async def prepare(self):
        await super().prepare()
        if any(len(self.get_body_argument(name, "", strip=False).encode()) > LONGEST for name in PASSWORDS):
            raise web.HTTPError(400, f"A password has at most {LONGEST} bytes: as many letters, or fewer with accents.")


class _Ordered:
    """An order that is given by opening an address: only the hub's own pages may send a browser there."""

    async def prepare(self):
        await super().prepare()
        if self.request.headers.get("Sec-Fetch-Site", "same-origin") != "same-origin":
            raise web.HTTPError(403, "Use the page Authorize Users: this link comes from elsewhere.")


class _Leaving:
    """The page that lets an account in, or shuts it out: then its servers end, with what runs in them."""

    async def get(self, name):
        await super().get(name)
        account, user = self.authenticator.get_user(name), self.find_user(name)
        if user is not None and not account.is_authorized:
            for server in [one.name for one in user.spawners.values() if one.ready]:
                await self.stop_single_user(user, server)
