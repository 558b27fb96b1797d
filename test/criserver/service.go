package criserver

import (
	"context"
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// service answers the calls; those that it lacks are answered with
// Unimplemented.
type service struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	server    *Server
	sandboxes int
}

func (*service) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{
		Version:           "0.1.0", // of the kubelet's CRI, by convention
		RuntimeName:       "nodemend-criserver",
		RuntimeVersion:    "1.0.0",
		RuntimeApiVersion: "v1",
	}, nil
}

func (s *service) Status(context.Context, *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	return &runtimeapi.StatusResponse{Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
		condition(runtimeapi.RuntimeReady, s.server.notReady),
		condition(runtimeapi.NetworkReady, s.server.networkNotReady),
	}}}, nil
}

func condition(conditionType, notReady string) *runtimeapi.RuntimeCondition {
	if notReady == "" {
		return &runtimeapi.RuntimeCondition{Type: conditionType, Status: true}
	}
	return &runtimeapi.RuntimeCondition{Type: conditionType, Reason: notReady, Message: "set by whoever runs this stand-in"}
}

func (s *service) ListPodSandbox(context.Context, *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	response := &runtimeapi.ListPodSandboxResponse{}
	for i := range s.sandboxes {
		name := fmt.Sprintf("sandbox-%d", i)
		response.Items = append(response.Items, &runtimeapi.PodSandbox{
			Id:       name,
			Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "default", Uid: name},
			State:    runtimeapi.PodSandboxState_SANDBOX_READY,
		})
	}
	return response, nil
}

func (*service) ListContainers(context.Context, *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	return &runtimeapi.ListContainersResponse{}, nil
}
