"""Nova of OpenStack in one process, without a broker: the API, the conductor, the scheduler, and a
compute service whose hypervisor is Nova's own fake one. Another role is Placement, which Nova needs.

  serve.py placement DIR PORT     Placement, configured by DIR/placement.conf
  serve.py setup DIR              make the databases of DIR/nova.conf
  serve.py nova DIR               Nova, configured by DIR/nova.conf
  serve.py discover DIR           tell Nova of its compute service, which has started once
"""

import os
import sys

role, folder = sys.argv[1], sys.argv[2]
os.environ["EVENTLET_NO_GREENDNS"] = "yes"


def placement(port):
    os.environ["OS_PLACEMENT_CONFIG_DIR"] = folder
    sys.argv = ["placement"]
    from wsgiref import simple_server
    from placement import wsgi

    served = wsgi.init_application()

    def app(environ, start_response):
        # keystoneauth's "none" sends a token of its own.
        environ["HTTP_X_AUTH_TOKEN"] = "admin"
        return served(environ, start_response)

    class Quiet(simple_server.WSGIRequestHandler):
        def log_message(self, *args):
            pass

    simple_server.make_server("127.0.0.1", port, app, handler_class=Quiet).serve_forever()


def manage(*args):
    """Runs nova-manage in a process of its own, which it wants."""
    pid = os.fork()
    if pid == 0:
        sys.argv = ["nova-manage", "--config-file", os.path.join(folder, "nova.conf"), *args]
        from nova.cmd.manage import main

        os._exit(main() or 0)
    _, status = os.waitpid(pid, 0)
    if status != 0:
        sys.exit("nova-manage %s has failed" % " ".join(args))


def nova():
    import nova.monkey_patch  # noqa: F401, first of all
    import eventlet
    from keystoneauth1 import noauth
    from nova import config, objects, service, service_auth
    from nova.network import neutron

    config.parse_args(["nova", "--config-file", os.path.join(folder, "nova.conf")])
    from nova import conf

    class None_(noauth.NoAuth):
        pass

    # There is no Keystone: images and networks are asked for without a token.
    plugin = None_(endpoint=conf.CONF.neutron.endpoint_override)
    service_auth.get_auth_plugin = lambda *args, **kwargs: plugin
    neutron._get_auth_plugin = lambda *args, **kwargs: plugin

    objects.register_all()
    for name in ("conductor", "scheduler", "compute"):
        manager = "nova.%s.manager.%sManager" % (name, name.capitalize())
        service.Service.create(binary="nova-" + name, topic=name, manager=manager).start()
    service.WSGIService("osapi_compute").start()
    while True:
        eventlet.sleep(60)


if role == "placement":
    placement(int(sys.argv[3]))
elif role == "setup":
    manage("api_db", "sync")
    manage("cell_v2", "map_cell0", "--database_connection", "sqlite:///%s/cell0.sqlite" % folder)
    manage("db", "sync")
    manage("cell_v2", "create_cell", "--name", "cell1", "--database_connection", "sqlite:///%s/nova.sqlite" % folder, "--transport-url", "fake:/")
elif role == "discover":
    manage("cell_v2", "discover_hosts")
elif role == "nova":
    nova()
else:
    sys.exit("there is no role " + role)
