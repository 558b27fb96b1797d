package main

import (
	"context"
	"io"
	"net/http"
	"time"

	"k8s.io/klog/v2"
)

// askTimeout bounds how long a program waits for its own answers.
const askTimeout = 5 * time.Second

// ask asks the program itself for pages that it serves at an address, if any, as monitoring and probes
// do: then it has executed what it takes to answer.
func ask(ctx context.Context, address string, paths ...string) {
	if address == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	client := http.Client{
		Transport: &http.Transport{DisableKeepAlives: true},
		// Anybody on the node may have taken the port before: nobody else is asked on their word.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	for _, path := range paths {
		if err := get(ctx, &client, "http://"+address+path); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).V(1).Info("The program has not answered itself", "err", err.Error())
		}
	}
}

func get(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // was only read
	_, err = io.Copy(io.Discard, response.Body)
	return err
}
