package hostunits

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// credentials are what the kubelet has put into the pod.
type credentials struct {
	token, ca []byte
	// renewed is when the kubelet wrote the token.
	renewed time.Time
	// lifetime is that of a token of this kind; 0 if it is not known.
	lifetime time.Duration
}

// readCredentials reads the files of a service account. The kubelet replaces both at
// once; a mix of old and new is put right by the next call.
func readCredentials(dir string) (c credentials, err error) {
	token := filepath.Join(dir, "token")
	c.token, err = os.ReadFile(token)
	if err == nil {
		c.ca, err = os.ReadFile(filepath.Join(dir, "ca.crt"))
	}
	if err != nil {
		return c, fmt.Errorf("reading the pod's service account: %w; mount its token and CA at %s", err, dir)
	}
	for name, content := range map[string][]byte{"token": c.token, "ca.crt": c.ca} {
		if len(bytes.TrimSpace(content)) == 0 {
			return c, fmt.Errorf("reading the pod's service account: %s is empty; what is on the host stays", filepath.Join(dir, name))
		}
	}
	info, err := os.Stat(token)
	if err != nil {
		return c, err
	}
	c.renewed, c.lifetime = info.ModTime(), lifetime(string(c.token))
	return c, nil
}

// lifetime returns how long a token is valid in all: the difference of two times of
// the API server, which no clock of the node has a part in. It is 0 if the token
// does not tell.
func lifetime(token string) time.Duration {
	parts := strings.Split(strings.TrimSpace(token), ".")
	if len(parts) != 3 {
		return 0
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return 0
	}
	var claims struct {
		Issued  int64 `json:"iat"`
		Expires int64 `json:"exp"`
	}
	if err := json.Unmarshal(payload, &claims); err != nil || claims.Issued == 0 || claims.Expires < claims.Issued {
		return 0
	}
	return time.Duration(claims.Expires-claims.Issued) * time.Second
}

// expired returns an error if the kubelet has not renewed the token in time.
func (c credentials) expired(now time.Time) error {
	age := now.Sub(c.renewed)
	if c.lifetime == 0 || age < c.lifetime {
		return nil
	}
	return errors.New("the pod's token is " + age.Round(time.Second).String() + " old and was valid for " + c.lifetime.String() + ": the kubelet does not renew it any more")
}

// kubeconfig returns a kubeconfig file for a server that takes its token and CA from
// these files. client-go reads the token again every minute, and a changed CA too.
func kubeconfig(server, tokenFile, caFile string) ([]byte, error) {
	const name = "nodemend"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthority: caFile}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{TokenFile: tokenFile}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	return clientcmd.Write(*config)
}
