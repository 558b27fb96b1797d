package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// overriddenConfig says how to reach the API server by a URI with options, as
// node-problem-detector's --apiserver-override takes it:
//
//	https://10.0.0.1:6443?inClusterConfig=false&auth=/etc/kubeconfig
//
// inClusterConfig (true unless given) takes the pod's service account; auth names
// a kubeconfig file, of which the server is used, too; insecure skips the
// verification of the server's certificate. useServiceAccount adds the token of the
// pod's service account, if there is one.
func overriddenConfig(text string) (*rest.Config, error) {
	const token = "/var/run/secrets/kubernetes.io/serviceaccount/token" //nolint:gosec // a path, no secret
	cfg, err := parseOverride(text, token)
	if err != nil {
		return nil, usageError{fmt.Errorf("--apiserver-override=%s: %w", text, err)}
	}
	return rest.AddUserAgent(cfg, "nodemend-detector"), nil
}

func parseOverride(text, tokenFile string) (*rest.Config, error) {
	uri, err := url.Parse(text)
	if err != nil {
		return nil, err
	}
	options := uri.Query()
	flag := func(name string, preset bool) bool {
		value := options.Get(name)
		if value == "" {
			return preset
		}
		set, parseErr := strconv.ParseBool(value)
		if parseErr != nil {
			err = errors.Join(err, fmt.Errorf("option %s is %q, accepted are true and false", name, value))
		}
		return set
	}
	inCluster, insecure, account := flag("inClusterConfig", true), flag("insecure", false), flag("useServiceAccount", false)
	if err != nil {
		return nil, err
	}
	server := ""
	if uri.Scheme != "" && uri.Host != "" {
		server = uri.Scheme + "://" + uri.Host
	}
	var cfg *rest.Config
	switch auth := options.Get("auth"); {
	case inCluster:
		if cfg, err = rest.InClusterConfig(); err != nil {
			return nil, fmt.Errorf("%w; give a kubeconfig file by inClusterConfig=false&auth=FILE", err)
		}
		if server != "" {
			cfg.Host = server
		}
	case auth != "":
		if cfg, err = clientcmd.BuildConfigFromFlags("", auth); err != nil {
			return nil, err
		}
	case server == "":
		return nil, errors.New("neither a server (https://HOST:PORT) nor auth=FILE is given")
	default:
		cfg = &rest.Config{Host: server}
	}
	if insecure && (inCluster || options.Get("auth") == "") {
		cfg.Insecure, cfg.CAFile, cfg.CAData = true, "", nil
	}
	if account && !inCluster && hasText(tokenFile) {
		cfg.BearerTokenFile = tokenFile
	}
	return cfg, nil
}

// hasText says whether a file can be read and has something to say.
func hasText(file string) bool {
	text, err := os.ReadFile(file)
	return err == nil && len(bytes.TrimSpace(text)) > 0
}
