package nova

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodemend/nodemend/test/openstack"
)

// Magnum is an API with nothing behind it but a database.
type Magnum struct {
	*host
	url string
}

const magnumConfiguration = `[DEFAULT]
transport_url = fake:/
state_path = %[1]s
host = magnum
[database]
connection = sqlite:///%[1]s/magnum.sqlite
[oslo_concurrency]
lock_path = %[1]s/lock
[keystone_authtoken]
auth_url = http://127.0.0.1:1/v3
www_authenticate_uri = http://127.0.0.1:1/v3
[keystone_auth]
auth_url = http://127.0.0.1:1/v3
`

// StartMagnum starts one that has a cluster, and stops it when the test ends. It skips the test where
// the package is not installed.
func StartMagnum(t testing.TB, cluster *openstack.Cluster) *Magnum {
	t.Helper()
	m := &Magnum{host: has(t, "magnum")}
	api := port(t)
	m.url = fmt.Sprintf("http://127.0.0.1:%d/v1", api)
	groups := []map[string]any{}
	for _, g := range cluster.Groups {
		groups = append(groups, map[string]any{"uuid": g.UUID, "name": g.Name, "role": g.Role, "node_count": g.Count, "node_addresses": g.Addresses, "min_node_count": 0})
	}
	text, err := json.Marshal(map[string]any{"uuid": cluster.UUID, "groups": groups})
	if err != nil {
		t.Fatal(err)
	}
	m.write("cluster.json", string(text))
	m.write("magnum.conf", fmt.Sprintf(magnumConfiguration, m.dir))
	m.spawn("magnum", fmt.Sprint(api))
	m.await(strings.TrimSuffix(m.url, "v1"))
	return m
}

// URL is that of the API.
func (m *Magnum) URL() string { return m.url }

// Told returns what the conductor was told, a line for each resize: node group, count, and servers to
// remove.
func (m *Magnum) Told() []string {
	m.t.Helper()
	text, err := os.ReadFile(filepath.Join(m.dir, "resized"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		m.t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}
