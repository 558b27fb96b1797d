"""Nova of OpenStack in one process, without a broker: the API, the conductor, the scheduler, and a
compute service whose hypervisor is Nova's own fake one. Another role is Placement, which Nova needs. And
the API of Magnum, without anything behind it: what its conductor would be told is written down.

  serve.py placement DIR PORT     Placement, configured by DIR/placement.conf
  serve.py setup DIR              make the databases of DIR/nova.conf
  serve.py nova DIR               Nova, configured by DIR/nova.conf
  serve.py magnum DIR PORT        Magnum, configured by DIR/magnum.conf, with the cluster of DIR/cluster.json
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


def magnum(port):
    import json
    from wsgiref import simple_server
    from magnum import conf, objects
    from magnum.api import app
    from magnum.common import config, context, keystone
    from magnum.conductor import api as conductor
    from magnum.db.sqlalchemy import api, models
    from oslo_log import log

    log.register_options(conf.CONF)
    config.parse_args(["magnum", "--config-file", os.path.join(folder, "magnum.conf")])
    keystone.KeystoneClientV3.trustee_domain_id = "x"
    # Its migrations alter constraints, which SQLite can't.
    models.Base.metadata.create_all(api.get_engine())
    admin = context.make_admin_context()
    admin.project_id = "p"
    with open(os.path.join(folder, "cluster.json")) as file:
        wanted = json.load(file)

    def create(kind, **fields):
        made = getattr(objects, kind)(admin)
        for name, value in fields.items():
            setattr(made, name, value)
        made.create()

    template = "e74c40e0-d825-11e2-a28f-0800200c9a66"
    create("ClusterTemplate", uuid=template, name="t", project_id="p", user_id="u", coe="kubernetes", cluster_distro="fedora-coreos", server_type="vm", labels={})
    create("Cluster", uuid=wanted["uuid"], name="prod", project_id="p", user_id="u", cluster_template_id=template, status="CREATE_COMPLETE", stack_id="s", labels={})
    for group in wanted["groups"]:
        create("NodeGroup", cluster_id=wanted["uuid"], project_id="p", status="CREATE_COMPLETE", is_default=True, stack_id="s", **group)

    def resize(self, cluster, node_count, nodes_to_remove, nodegroup, rollback=False):
        with open(os.path.join(folder, "resized"), "a") as file:
            file.write("%s %d %s\n" % (nodegroup.name, node_count, ",".join(nodes_to_remove)))
        nodegroup.status = "UPDATE_IN_PROGRESS"
        nodegroup.save()

    conductor.API.cluster_resize_async = resize
    served = app.setup_app()

    def serve(environ, start_response):
        # What keystonemiddleware would have found out.
        environ.update({"HTTP_X_USER_ID": "u", "HTTP_X_PROJECT_ID": "p", "HTTP_X_ROLES": "admin"})
        return served(environ, start_response)

    simple_server.make_server("127.0.0.1", port, serve).serve_forever()


if role == "placement":
    placement(int(sys.argv[3]))
elif role == "magnum":
    magnum(int(sys.argv[3]))
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
