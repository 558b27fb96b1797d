package openstack

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/containerinfra/v1/nodegroups"

	"github.com/nodemend/nodemend/internal/power"
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

// answering is a session whose Nova and Magnum answer all that they are asked in this way.
func answering(t *testing.T, answer http.HandlerFunc) *Session {
	t.Helper()
	server := httptest.NewTLSServer(answer) // of the same certificate
	t.Cleanup(server.Close)
	cloud := openstack.Start(t)
	cloud.Compute, cloud.Container = server.URL, server.URL
	session, err := Cloud{File: cloud.File(), Name: "openstack"}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return session
}

const asked = "4c4c4544-0032-3810-8052-b4c04f4a5731"

func TestAnAnswerThatIsTooLongIsNotRead(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusInternalServerError} {
		session := answering(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = fmt.Fprintf(w, `{"server": {"id": %q, "name": "`, asked)
			for range 16 {
				_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
			}
			_, _ = io.WriteString(w, `"}}`)
		})
		_, _, err := session.Server(t.Context(), asked)
		if err == nil || status == http.StatusOK && !strings.Contains(err.Error(), "longer than") || len(err.Error()) > 1000 {
			t.Errorf("HTTP %d: got %.1000v", status, err)
		}
	}
}

func TestALinkThatIsNotSafeIsNotFollowed(t *testing.T) {
	session := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"nodegroups": [{"uuid": "a"}], "next": "http://192.0.2.1/nodegroups"}`)
	})
	magnum, err := session.Magnum()
	if err != nil {
		t.Fatal(err)
	}
	_, err = nodegroups.List(magnum, "c", nodegroups.ListOpts{}).AllPages(t.Context())
	if err == nil || !strings.Contains(err.Error(), "is not of https") {
		t.Errorf("got %v", err)
	}
}

// A server that is gone is replaced, so that has to be Nova's word.
func TestWhatAProxyDoesNotFindIsNotGone(t *testing.T) {
	for body, gone := range map[string]bool{
		`{"itemNotFound": {"code": 404, "message": "Instance could not be found."}}`: true,
		"<html><body>404 Not Found</body></html>":                                    false,
		"404 page not found\n": false, "": false, "null": false, `"not found"`: false,
	} {
		session := answering(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, body)
		})
		_, _, err := session.Server(t.Context(), asked)
		if errors.Is(err, ErrNotFound) != gone || errors.Is(err, power.ErrNoAnswer) == gone {
			t.Errorf("%s: got %v", body, err)
		}
	}
}
