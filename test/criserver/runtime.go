package criserver

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// runtimeService answers the calls; those that it lacks are answered with
// Unimplemented.
type runtimeService struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	server                *Server
	sandboxes, containers int
}

func (*runtimeService) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{
		Version:           "0.1.0", // of the kubelet's CRI, by convention
		RuntimeName:       "nodemend-criserver",
		RuntimeVersion:    "1.0.0",
		RuntimeApiVersion: "v1",
	}, nil
}

func (s *runtimeService) Status(context.Context, *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
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

func (*runtimeService) RuntimeConfig(context.Context, *runtimeapi.RuntimeConfigRequest) (*runtimeapi.RuntimeConfigResponse, error) {
	return &runtimeapi.RuntimeConfigResponse{
		Linux: &runtimeapi.LinuxRuntimeConfiguration{CgroupDriver: runtimeapi.CgroupDriver_CGROUPFS},
	}, nil
}

func (s *runtimeService) ListPodSandbox(context.Context, *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
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

func (s *runtimeService) ListContainers(context.Context, *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	response := &runtimeapi.ListContainersResponse{}
	for i := range s.containers {
		name := fmt.Sprintf("container-%d", i)
		response.Containers = append(response.Containers, &runtimeapi.Container{
			Id:           name,
			PodSandboxId: fmt.Sprintf("sandbox-%d", i),
			Metadata:     &runtimeapi.ContainerMetadata{Name: name},
			Image:        &runtimeapi.ImageSpec{Image: "registry.example/" + name},
			State:        runtimeapi.ContainerState_CONTAINER_RUNNING,
		})
	}
	return response, nil
}

func (*runtimeService) ListContainerStats(context.Context, *runtimeapi.ListContainerStatsRequest) (*runtimeapi.ListContainerStatsResponse, error) {
	return &runtimeapi.ListContainerStatsResponse{}, nil
}

func (*runtimeService) ListPodSandboxStats(context.Context, *runtimeapi.ListPodSandboxStatsRequest) (*runtimeapi.ListPodSandboxStatsResponse, error) {
	return &runtimeapi.ListPodSandboxStatsResponse{}, nil
}

// GetContainerEvents keeps the stream open and sends nothing: no container ever
// starts or ends here.
func (s *runtimeService) GetContainerEvents(_ *runtimeapi.GetEventsRequest, stream grpc.ServerStreamingServer[runtimeapi.ContainerEventResponse]) error {
	select {
	case <-stream.Context().Done():
		return nil
	case <-s.server.stopping:
		return errStopping
	}
}
