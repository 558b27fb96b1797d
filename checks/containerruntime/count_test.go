package containerruntime

import (
	"testing"

	"google.golang.org/grpc/mem"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// pieces cuts data as the network does.
func pieces(data []byte, size int) (s mem.BufferSlice) {
	for len(data) > 0 {
		n := min(size, len(data))
		s = append(s, mem.SliceBuffer(data[:n]))
		data = data[n:]
	}
	return s
}

func TestItemsAreCountedWithoutDecodingThem(t *testing.T) {
	sandboxes, containers := &runtimeapi.ListPodSandboxResponse{}, &runtimeapi.ListContainersResponse{}
	for range 300 {
		sandboxes.Items = append(sandboxes.Items, &runtimeapi.PodSandbox{Id: "x", Labels: map[string]string{"app": "web"}})
		containers.Containers = append(containers.Containers, &runtimeapi.Container{})
	}
	// Fields that a later CRI may add: a varint, 8, 2 and 4 bytes.
	later := []byte{2 << 3, 0x80, 0x01, 3<<3 | 1, 1, 2, 3, 4, 5, 6, 7, 8, 4<<3 | 2, 2, 1, 2, 5<<3 | 5, 1, 2, 3, 4}

	for name, tc := range map[string]struct {
		message any
		more    []byte
		want    count
	}{
		"sandboxes":       {sandboxes, nil, 300},
		"containers":      {containers, nil, 300},
		"none":            {&runtimeapi.ListContainersResponse{}, nil, 0},
		"unknown fields":  {sandboxes, later, 300},
		"unknown, and no": {&runtimeapi.ListPodSandboxResponse{}, later, 0},
	} {
		t.Run(name, func(t *testing.T) {
			encoded, err := newCodec().Marshal(tc.message)
			if err != nil {
				t.Fatal(err)
			}
			data := append(encoded.Materialize(), tc.more...)
			whole, n := pieces(data, len(data)), count(0)
			if allocations := testing.AllocsPerRun(10, func() { _ = newCodec().Unmarshal(whole, &n) }); allocations > 2 {
				t.Errorf("%.0f allocations", allocations)
			}
			for _, size := range []int{1, 7, 1 << 20} {
				var got count
				if err := newCodec().Unmarshal(pieces(data, size), &got); err != nil || got != tc.want {
					t.Errorf("in pieces of %d bytes: counted %d, %v; want %d", size, got, err, tc.want)
				}
			}
		})
	}
}

func TestWhatIsNoListIsAnError(t *testing.T) {
	for name, data := range map[string][]byte{
		"a tag that is cut":         {0x80},
		"a length that is cut":      {1<<3 | 2, 0x80},
		"a length beyond the end":   {1<<3 | 2, 5, 1},
		"a huge length":             {1<<3 | 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01},
		"an item of the wrong type": {1 << 3},
		"an unknown wire type":      {1<<3 | 7},
	} {
		t.Run(name, func(t *testing.T) {
			var got count
			if err := newCodec().Unmarshal(pieces(data, 1), &got); err == nil {
				t.Errorf("counted %d", got)
			}
		})
	}
}
