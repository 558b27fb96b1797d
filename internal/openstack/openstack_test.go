package openstack

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodemend/nodemend/test/openstack"
)

func TestACloudsFileThatCouldBeLiedToIsRefused(t *testing.T) {
	const credential = "application_credential_id: a, application_credential_secret: s3cret"
	for text, want := range map[string]string{
		"": "accepted is clouds:", "s3cret: [": "accepted is clouds:", "clouds: {other: {}}": `no clouds.yaml with a cloud "prod"`,
		"clouds: {prod: {auth: {auth_url: 'http://keystone:5000', " + credential + "}}}":                      "is not of https",
		"clouds: {prod: {auth: {auth_url: 'http://10.0.0.1:5000', " + credential + "}}}":                      "is not of https",
		"clouds: {prod: {auth: {" + credential + "}}}":                                                        "is no URL",
		"clouds: {prod: {auth: {auth_url: 'https://k', " + credential + "}, verify: false}}":                  "verify: false is refused",
		"clouds: {prod: {auth: {auth_url: 'https://k', " + credential + "}, cacert: /nowhere}}":               "names a file that can't be read",
		"clouds: {prod: {auth: {auth_url: 'https://k', username: u, password: s3cret, user_domain_name: d}}}": "names no project",
	} {
		file := filepath.Join(t.TempDir(), "clouds.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Cloud{File: file, Name: "prod"}.Open(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

// What the environment of the process says is of somebody's shell.
func TestOnlyTheFileCounts(t *testing.T) {
	t.Setenv("OS_CLOUD", "other")
	t.Setenv("OS_REGION_NAME", "Two")
	cloud := openstack.Start(t, openstack.Active("4c4c4544-0032-3810-8052-b4c04f4a5731", "a"))
	session, err := Cloud{File: cloud.File(), Name: "openstack"}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := session.Server(t.Context(), "4c4c4544-0032-3810-8052-b4c04f4a5731"); err != nil {
		t.Error(err)
	}
}

func TestTheServerOfAProviderID(t *testing.T) {
	const id = "4c4c4544-0032-3810-8052-b4c04f4a5731"
	for text, want := range map[string]string{
		"openstack:///" + id: id, "openstack://RegionOne/" + strings.ToUpper(id): id,
		"": "", id: "", "openstack://" + id: "", "openstack:///" + id + "/x": "", "openstack://a/b/" + id: "", "openstack:///../" + id: "", "aws:///" + id: "",
		"openstack:///" + id + "\n": "",
	} {
		if got, is := ServerID(text); got != want || is != (want != "") {
			t.Errorf("%q: got %q, %t", text, got, is)
		}
	}
}
