package maintenance

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// nodeWith returns a node with UID "u".
func nodeWith(cordoned bool, annotations map[string]string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "w17", UID: "u", Annotations: annotations},
		Spec:       corev1.NodeSpec{Unschedulable: cordoned},
	}
}

func markedFor(name string) map[string]string {
	return map[string]string{v1alpha1.CordonedAnnotation: name, "other": "stays"}
}

// managed lets the node say who has cordoned it.
func managed(node *corev1.Node, by string) *corev1.Node {
	node.ManagedFields = []metav1.ManagedFieldsEntry{
		{Manager: "kubelet", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:pool":{}}}}`)},
		{Manager: by, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:unschedulable":{}}}`)},
	}
	return node
}

func TestCordonAndMarkAreOnePatchEachWithTests(t *testing.T) {
	tests := []struct {
		name             string
		node             *corev1.Node
		cordon, uncordon string
	}{
		{
			"in service, without annotations", nodeWith(false, nil),
			`[{"op":"test","path":"/metadata/uid","value":"u"},` +
				`{"op":"test","path":"/spec/unschedulable","value":null},{"op":"add","path":"/spec/unschedulable","value":true},` +
				`{"op":"test","path":"/metadata/annotations","value":null},` +
				`{"op":"add","path":"/metadata/annotations","value":{"nodemend.dev/cordoned-for":"dimm"}}]`,
			"null",
		},
		{
			"in service", nodeWith(false, map[string]string{"other": "stays"}),
			`[{"op":"test","path":"/metadata/uid","value":"u"},` +
				`{"op":"test","path":"/spec/unschedulable","value":null},{"op":"add","path":"/spec/unschedulable","value":true},` +
				`{"op":"add","path":"/metadata/annotations/nodemend.dev~1cordoned-for","value":"dimm"}]`,
			"null",
		},
		{"cordoned by somebody else", nodeWith(true, map[string]string{"other": "stays"}), "null", "null"},
		{"cordoned by somebody else, without annotations", nodeWith(true, nil), "null", "null"},
		{
			"cordoned by us", nodeWith(true, markedFor("fan")), "null",
			`[{"op":"test","path":"/metadata/annotations/nodemend.dev~1cordoned-for","value":"fan"},` +
				`{"op":"remove","path":"/metadata/annotations/nodemend.dev~1cordoned-for"},` +
				`{"op":"remove","path":"/spec/unschedulable"}]`,
		},
		{
			"cordoned by us, uncordoned by somebody else", nodeWith(false, markedFor("fan")),
			`[{"op":"test","path":"/metadata/uid","value":"u"},` +
				`{"op":"test","path":"/spec/unschedulable","value":null},{"op":"add","path":"/spec/unschedulable","value":true},` +
				`{"op":"test","path":"/metadata/annotations/nodemend.dev~1cordoned-for","value":"fan"}]`,
			`[{"op":"test","path":"/metadata/annotations/nodemend.dev~1cordoned-for","value":"fan"},` +
				`{"op":"remove","path":"/metadata/annotations/nodemend.dev~1cordoned-for"}]`,
		},
		{
			"cordoned by us, uncordoned and cordoned again by somebody else", managed(nodeWith(true, markedFor("fan")), "kubectl-cordon"), "null",
			`[{"op":"test","path":"/metadata/annotations/nodemend.dev~1cordoned-for","value":"fan"},` +
				`{"op":"remove","path":"/metadata/annotations/nodemend.dev~1cordoned-for"}]`,
		},
		{
			"cordoned by us, as its manager says", managed(nodeWith(true, markedFor("fan")), "nodemend-controller"), "null",
			`[{"op":"test","path":"/metadata/annotations/nodemend.dev~1cordoned-for","value":"fan"},` +
				`{"op":"remove","path":"/metadata/annotations/nodemend.dev~1cordoned-for"},` +
				`{"op":"remove","path":"/spec/unschedulable"}]`,
		},
		{
			"marked for nobody", nodeWith(true, markedFor("")), "null",
			`[{"op":"test","path":"/metadata/annotations/nodemend.dev~1cordoned-for","value":""},` +
				`{"op":"remove","path":"/metadata/annotations/nodemend.dev~1cordoned-for"},` +
				`{"op":"remove","path":"/spec/unschedulable"}]`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := marshalled(t, cordonPatch(tt.node, "dimm", true)); got != tt.cordon {
				t.Errorf("cordoning:\ngot  %s\nwant %s", got, tt.cordon)
			}
			if got := marshalled(t, uncordonPatch(tt.node)); got != tt.uncordon {
				t.Errorf("uncordoning:\ngot  %s\nwant %s", got, tt.uncordon)
			}
		})
	}
}

func marshalled(t *testing.T, patch []operation) string {
	t.Helper()
	data, err := json.Marshal(patch)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
