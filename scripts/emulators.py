#!/usr/bin/env python3
"""Starts the object-store emulators of the tests: ministack (S3) and azurite (Azure Blob).

usage: emulators.py run [KEY=VALUE ..] -- COMMAND ..   both, exports variables, runs, stops both
       emulators.py start [KEY=VALUE ..]               prints `export NAME=VALUE` lines
       emulators.py stop state=FOLDER                  the FOLDER that start printed

keys: only=s3|azure   one of the two
      state=FOLDER    where they keep their data and logs (default: a new temporary folder,
                      which `run` removes)

From Python: `with emulators.Emulators() as found: subprocess.run(.., env=found.environment())`.

What is exported is what any client of the two clouds understands (AWS_*, AZURE_*), so that
`tarndb --db "$TARNDB_TEST_S3_URL/some/prefix"` works as it is, and the TARNDB_TEST_* variables
that the tests look at. Ports are free ones, on 127.0.0.1 only; data survives a stop. In tests
of crashes kill clients, never azurite: killed, it loses the last seconds of what it acknowledged.
"""

import base64
import contextlib
import email.utils
import hashlib
import hmac
import http.client
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent
START_S = 30
STOP_S = 20
BUCKET = "tarndb-test"
# The account and key of every azurite, printed in its documentation: no secret.
AZURE_ACCOUNT = "devstoreaccount1"
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


class Failed(Exception):
    """An emulator could not be installed or started."""


def installed():
    """The programs, installed when they are not."""
    done = subprocess.run([SCRIPTS / "setup_emulators.sh"], capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"the emulators could not be installed:\n{done.stderr}")
    return done.stdout.split()[-2:]


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def answers(port, path, timeout_s=2):
    """The status of a GET, or None when nobody answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except OSError:
        return None
    except http.client.HTTPException:
        return None
    finally:
        connection.close()


class Emulator:
    """One server process with its folder."""

    name = ""
    path = "/"

    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        self.port = self.process = None

    def command(self):
        raise NotImplementedError

    def variables(self):
        """Its own environment."""
        return {}

    def is_ready(self, status):
        return status is not None

    def start(self):
        # Somebody else may take the free port before it does.
        for attempt in range(3):
            self.folder.mkdir(parents=True, exist_ok=True)
            self.port = free_port()
            with open(self.folder / "log", "ab") as log:
                self.process = subprocess.Popen(self.command(), env={**os.environ, **self.variables()}, cwd=self.folder,
                                                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                                start_new_session=True)
            if self.wait():
                return
        raise Failed(f"{self.name} did not start; its log:\n{(self.folder / 'log').read_text()[-2000:]}")

    def wait(self):
        """Until it answers; False when its process has ended."""
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                return False
            if self.is_ready(answers(self.port, self.path)):
                return True
            time.sleep(0.02)
        stop(self.process.pid)
        self.process.wait()
        return False


class Ministack(Emulator):
    name = "ministack"
    path = "/_ministack/health"

    def command(self):
        return [self.program]

    def variables(self):
        return {"GATEWAY_PORT": str(self.port), "BIND_HOST": "127.0.0.1", "MINISTACK_HOST": "127.0.0.1",
                "SERVICES": "s3", "LOG_LEVEL": "WARNING", "S3_PERSIST": "1", "PERSIST_STATE": "1",
                "STATE_DIR": str(self.folder / "state"), "S3_DATA_DIR": str(self.folder / "data")}

    def is_ready(self, status):
        return status == 200

    def make_bucket(self, name):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request("PUT", f"/{name}")
        status = connection.getresponse().status
        if status not in (200, 409):
            raise Failed(f"ministack answered {status} to the making of a bucket")

    def exported(self):
        endpoint = f"http://127.0.0.1:{self.port}"
        return {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1",
                "AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": "true", "TARNDB_TEST_S3_ENDPOINT": endpoint,
                "TARNDB_TEST_S3_URL": f"s3://{BUCKET}"}


class Azurite(Emulator):
    name = "azurite"

    def command(self):
        return [self.program, "--blobHost", "127.0.0.1", "--blobPort", str(self.port), "--location",
                str(self.folder / "data"), "--silent", "--skipApiVersionCheck", "--disableTelemetry"]

    def make_bucket(self, name):
        date = email.utils.formatdate(usegmt=True)
        resource = f"/{AZURE_ACCOUNT}/{name}"
        signed = "PUT" + "\n" * 12 + f"x-ms-date:{date}\nx-ms-version:2021-08-06\n/{AZURE_ACCOUNT}{resource}\nrestype:container"
        digest = hmac.new(base64.b64decode(AZURE_KEY), signed.encode(), hashlib.sha256).digest()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request("PUT", f"{resource}?restype=container", headers={
            "x-ms-date": date, "x-ms-version": "2021-08-06", "Content-Length": "0",
            "Authorization": f"SharedKey {AZURE_ACCOUNT}:{base64.b64encode(digest).decode()}"})
        status = connection.getresponse().status
        if status not in (201, 409):
            raise Failed(f"azurite answered {status} to the making of a container")

    def exported(self):
        endpoint = f"http://127.0.0.1:{self.port}/{AZURE_ACCOUNT}"
        return {"AZURE_STORAGE_ACCOUNT_NAME": AZURE_ACCOUNT, "AZURE_STORAGE_ACCOUNT_KEY": AZURE_KEY,
                "AZURE_STORAGE_ENDPOINT": endpoint, "AZURE_ALLOW_HTTP": "true",
                "TARNDB_TEST_AZURE_ENDPOINT": endpoint, "TARNDB_TEST_AZURE_URL": f"az://{BUCKET}"}


class Emulators:
    """Both emulators (or one), started on entry and stopped on exit."""

    def __init__(self, only=None, state=None):
        self.only, self.state, self.own_state = only, state, state is None
        self.running = []

    def start(self):
        ministack, azurite = installed()
        self.state = Path(self.state or tempfile.mkdtemp(prefix="tarndb-emulators-")).resolve()
        wanted = [emulator for name, emulator in (("s3", Ministack(ministack, self.state / "s3")),
                                                  ("azure", Azurite(azurite, self.state / "azure")))
                  if self.only in (None, name)]
        for emulator in wanted:
            emulator.start()
            self.running.append(emulator)
            # Kept for `stop`, which is another process.
            (emulator.folder / "pid").write_text(str(emulator.process.pid))
            emulator.make_bucket(BUCKET)
        return self

    def stop(self):
        for emulator in self.running:
            stop(emulator.process.pid)
        for emulator in self.running:
            emulator.process.wait()
        self.running = []
        if self.own_state and self.state is not None:
            shutil.rmtree(self.state, ignore_errors=True)

    def exported(self):
        """The variables that clients need."""
        both = {}
        for emulator in self.running:
            both.update(emulator.exported())
        return both

    def environment(self):
        """A whole environment for a client: a profile of the user's must not reach the tests."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "AZURE_"))}
        return {**kept, **self.exported()}

    def urls(self):
        """The URL of the bucket of each."""
        return [value for name, value in self.exported().items() if name.endswith("_URL") and name.startswith("TARNDB_")]

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_):
        self.stop()


def stop(pid):
    """SIGTERM, and only after a long wait SIGKILL."""
    deadline = time.monotonic() + STOP_S
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        while time.monotonic() < deadline:
            with contextlib.suppress(ChildProcessError):
                if os.waitpid(pid, os.WNOHANG)[0] == pid:
                    return
            os.kill(pid, 0)
            time.sleep(0.02)
        os.kill(pid, signal.SIGKILL)


def stop_state(folder):
    for pid_file in sorted(Path(folder).glob("*/pid")):
        stop(int(pid_file.read_text()))
        pid_file.unlink()


def run(emulators, command):
    with emulators:
        return subprocess.run(command, env=emulators.environment()).returncode


def main(arguments):
    if not arguments or arguments[0] not in ("run", "start", "stop"):
        sys.exit(__doc__)
    verb, rest = arguments[0], arguments[1:]
    split = rest.index("--") if "--" in rest else len(rest)
    keys = dict(pair.split("=", 1) for pair in rest[:split] if "=" in pair)
    if len(keys) != split or set(keys) - {"only", "state"} or keys.get("only") not in (None, "s3", "azure"):
        sys.exit(__doc__)
    if verb == "stop":
        if "state" not in keys:
            sys.exit(__doc__)
        return stop_state(keys["state"])
    emulators = Emulators(**keys)
    if verb == "run":
        if not rest[split + 1:]:
            sys.exit(__doc__)
        return run(emulators, rest[split + 1:])
    emulators.start()
    print(f"# stop them: {sys.argv[0]} stop state={emulators.state}")
    for name, value in emulators.exported().items():
        print(f"export {name}={shlex.quote(value)}")
    return 0


if __name__ == "__main__":
    # A stop from outside ends the emulators too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(main(sys.argv[1:]))
    except Failed as failed:
        sys.exit(f"emulators: {failed}")
