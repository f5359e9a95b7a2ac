"""A whole OpenStack Swift in one process: ``swift_process.py FOLDER``, run by .venv-swift for
swift_server.py.

The proxy with its S3 interface, the account, the container and the object server are four
applications on four loopback ports and one loop: one disk, one replica, no memcached.
``FOLDER/port`` has the proxy's port once all of them listen.
"""

import sys
from pathlib import Path

import eventlet
from eventlet import wsgi
from swift.common import utils
from swift.common.http_protocol import SwiftHttpProtocol
from swift.common.ring import RingBuilder
from swift.common.wsgi import loadapp

STORAGE = ("account", "container", "object")


def main(folder: Path) -> None:
    utils.monkey_patch()
    utils.set_swift_dir(str(folder))
    sockets = {name: eventlet.listen(("127.0.0.1", 0)) for name in (*STORAGE, "proxy")}
    for name in STORAGE:
        ring_save(folder / f"{name}.ring.gz", sockets[name].getsockname()[1])
    running = []
    for name, socket in sockets.items():
        app = loadapp(str(folder / f"{name}-server.conf"), global_conf={"log_name": name})
        options = {
            "protocol": SwiftHttpProtocol,
            "capitalize_response_headers": False,
            "log_output": False,
        }
        running.append(eventlet.spawn(wsgi.server, socket, app, utils.NullLogger(), **options))
    (folder / "port.new").write_text(str(sockets["proxy"].getsockname()[1]))
    (folder / "port.new").rename(folder / "port")
    for server in running:
        server.wait()


def ring_save(path: Path, port: int) -> None:
    """Which server has what: here one has everything."""
    builder = RingBuilder(part_power=1, replicas=1, min_part_hours=0)
    builder.add_dev(
        {"region": 1, "zone": 1, "ip": "127.0.0.1", "port": port, "device": "disk", "weight": 1.0}
    )
    builder.rebalance()
    builder.get_ring().save(str(path))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
