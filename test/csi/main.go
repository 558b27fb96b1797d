// Command csi is the controller part of a CSI driver for tests: a volume is attached where a URL
// says so.
//
//	csi SOCKET URL
//
// It serves CSI at the Unix socket. To attach a volume to a node it posts to URL?volume=V&node=N,
// to detach it, it deletes that; the answer is the driver's. It is a module of its own, beside the
// external-attacher, since the product needs neither.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// name is what CSIDriver and PersistentVolumes call it.
const name = "disk.test.nodemend.dev"

func main() {
	if err := serve(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "csi:", err)
		os.Exit(1)
	}
}

func serve(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: csi SOCKET URL")
	}
	listener, err := net.Listen("unix", args[0])
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	d := &driver{url: args[1]}
	csi.RegisterIdentityServer(server, d)
	csi.RegisterControllerServer(server, d)
	return server.Serve(listener)
}

// driver has those calls that the external-attacher makes.
type driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	url string
}

func (*driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: name, VendorVersion: "1"}, nil
}

func (*driver) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{Capabilities: []*csi.PluginCapability{{
		Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{Type: csi.PluginCapability_Service_CONTROLLER_SERVICE}},
	}}}, nil
}

func (*driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

func (*driver) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	return &csi.ControllerGetCapabilitiesResponse{Capabilities: []*csi.ControllerServiceCapability{{
		Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME}},
	}}}, nil
}

func (d *driver) ControllerPublishVolume(ctx context.Context, r *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
	return &csi.ControllerPublishVolumeResponse{}, d.ask(ctx, http.MethodPost, r.VolumeId, r.NodeId)
}

func (d *driver) ControllerUnpublishVolume(ctx context.Context, r *csi.ControllerUnpublishVolumeRequest) (*csi.ControllerUnpublishVolumeResponse, error) {
	return &csi.ControllerUnpublishVolumeResponse{}, d.ask(ctx, http.MethodDelete, r.VolumeId, r.NodeId)
}

// ask hands a request on. What is refused is tried again by the external-attacher.
func (d *driver) ask(ctx context.Context, method, volume, node string) error {
	query := url.Values{"volume": {volume}, "node": {node}}
	request, err := http.NewRequestWithContext(ctx, method, d.url+"?"+query.Encode(), http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	defer func() { _ = response.Body.Close() }() // was only read
	text, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return status.Error(codes.Unavailable, err.Error())
	case response.StatusCode != http.StatusOK:
		return status.Errorf(codes.FailedPrecondition, "%s: %s", response.Status, strings.TrimSpace(string(text)))
	default:
		return nil
	}
}
