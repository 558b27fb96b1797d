//go:build e2e

package machine

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/test/cluster"
	"github.com/nodemend/nodemend/test/helm"
	"github.com/nodemend/nodemend/test/ipmisim"
	"github.com/nodemend/nodemend/test/process"
	"github.com/nodemend/nodemend/test/vm"
)

const (
	// csiDriver is what test/csi calls itself, and volumeInUse what a kubelet calls the volume.
	csiDriver   = "disk.test.nodemend.dev"
	volumeInUse = corev1.UniqueVolumeName("kubernetes.io/csi/" + csiDriver + "^volume")
	// podName is that of the only pod of the StatefulSet.
	podName = writer + "-0"
)

// writeScript writes to the disk, on and on, several times a second: its boot, and a number that goes
// on from what is there.
const writeScript = `#!/bin/sh
for disk in /sys/block/*; do
	[ "$(cat $disk/serial 2>/dev/null)" != volume ] || device=/dev/${disk##*/}
done
boot=$(cat /proc/sys/kernel/random/boot_id)
number=$(dd if=$device bs=512 count=1 iflag=direct 2>/dev/null | tr -d '\0' | cut -d ' ' -f 2)
while :; do
	number=$((number + 1))
	printf '%s %s' $boot $number | dd of=$device bs=512 count=1 conv=sync,notrunc oflag=direct 2>/dev/null || exit
	sleep 0.1
done
`

// withDisk are the options of a node whose machine has this UUID and BMC, sees the disk, and runs
// writers.
func withDisk(d *disk, name, uuid string, bmc *ipmisim.Simulator) options {
	return options{
		checks: noRuntimeCheck, bmc: bmc, powerButton: true, devices: append(d.devices(name), "-uuid", uuid), programs: []string{"dd"},
		files: map[string]vm.File{writerProgram: {Content: writeScript, Mode: 0o755}},
	}
}

// begins starts a program of bin that ends with the test, with its log beside the others.
func (s *scenario) begins(name string, arguments ...string) {
	s.Helper()
	path, err := program(name)
	s.Must(err)
	name = filepath.Base(name)
	log, err := os.Create(filepath.Join(s.plane.dir, name+".log"))
	s.Must(err)
	p, err := process.Start(&exec.Cmd{
		Path: path, Args: append([]string{name}, arguments...), Stdout: log, Stderr: log, SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}, log)
	s.Must(err)
	s.Cleanup(func() {
		if p.HasExited() {
			text, _ := process.Tail(log.Name(), 4<<10) // at worst it is empty
			s.Errorf("%s has ended by itself: %v: %s", name, p.Err, text)
		}
		p.Kill()
	})
}

// attaches has volumes of the driver attached, by the external-attacher, to where the disk is told.
func (s *scenario) attaches(d *disk) {
	s.Helper()
	socket := filepath.Join(s.plane.dir, "csi.sock")
	s.begins("csi/csi", socket, "http://"+d.driver.Addr)
	s.Until(moment, "the CSI driver listens", func() (bool, string) {
		_, err := os.Stat(socket)
		return err == nil, fmt.Sprint(err)
	})
	s.begins("csi/csi-attacher", "--kubeconfig="+s.plane.cluster.Kubeconfig, "--csi-address="+socket, "--v=4")
	s.Must(s.plane.Create(s.Ctx, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: csiDriver}, Spec: storagev1.CSIDriverSpec{AttachRequired: new(true)}}))
}

// hasDriver says of a node what a kubelet says on which the driver runs.
func (n *node) hasDriver() {
	n.Helper()
	object := n.Object()
	base := object.DeepCopy()
	metav1.SetMetaDataAnnotation(&object.ObjectMeta, "volumes.kubernetes.io/controller-managed-attach-detach", "true")
	n.Must(n.plane.Patch(n.Ctx, object, client.MergeFrom(base)))
	n.Must(n.plane.Create(n.Ctx, &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: n.name, OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.name, UID: object.UID}}},
		Spec:       storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: csiDriver, NodeID: n.name}}},
	}))
}

// startWriter creates a StatefulSet of one pod, for these nodes, with the volume.
func (s *scenario) startWriter(nodes ...*node) {
	s.Helper()
	claim := corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: new(""), VolumeName: "volume",
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(diskSize, resource.BinarySI)}},
	}
	s.Must(s.plane.Create(s.Ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "volume"},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: claim.AccessModes, Capacity: claim.Resources.Requests, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: csiDriver, VolumeHandle: "volume"}},
		},
	}))
	on := corev1.NodeSelectorRequirement{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn}
	for _, n := range nodes {
		on.Values = append(on.Values, n.name)
	}
	soon := func(key string) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(5))}
	}
	s.Must(s.plane.Create(s.Ctx, &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: writer, Namespace: metav1.NamespaceDefault},
		Spec: appsv1.StatefulSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": writer}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": writer}},
				Spec: corev1.PodSpec{
					Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
						NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{on}}},
					}}},
					// It is told to end as soon as its node does not answer, not after five minutes.
					Tolerations: []corev1.Toleration{soon(corev1.TaintNodeUnreachable), soon(corev1.TaintNodeNotReady)},
					Containers:  []corev1.Container{{Name: writer, Image: writer, VolumeMounts: []corev1.VolumeMount{{Name: "volume", MountPath: "/volume"}}}},
				},
			},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "volume"}, Spec: claim}},
		},
	}))
}

// pod returns the writer's; nil: there is none.
func (s *scenario) pod() *corev1.Pod {
	s.Helper()
	pod := &corev1.Pod{}
	err := s.plane.Get(s.Ctx, client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: podName}, pod)
	if client.IgnoreNotFound(err) != nil {
		s.Fatal(err)
	}
	if err != nil {
		return nil
	}
	return pod
}

// attachments are the nodes to which the API server says that volumes are attached.
func (s *scenario) attachments() (nodes []string) {
	s.Helper()
	var all storagev1.VolumeAttachmentList
	s.Must(s.plane.List(s.Ctx, &all))
	for i := range all.Items {
		nodes = append(nodes, all.Items[i].Spec.NodeName)
	}
	return nodes
}

// remoteRunner installs what the chart adds for a remote runner that may have pods and volumes
// freed, and machines shut down, and starts one, with this configuration.
func (s *scenario) remoteRunner(config string) {
	s.Helper()
	chart := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(helm.Template(s.T, namespace,
		"--set", "remoteRunner.enabled=true,remoteRunner.outOfService=true,remoteRunner.maintenancePower=true,remoteRunner.config.switches[0].ipmi.host=bmc.example.com",
		"--set", "remoteRunner.config.switches[0].ipmi.user=fence,remoteRunner.config.switches[0].ipmi.passwordFile=/etc/nodemend/bmc/password")), 4096)
	for {
		var object unstructured.Unstructured
		if err := chart.Decode(&object); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			s.Fatal(err)
		}
		// The controller and the remote runner are processes here.
		ofRunner := strings.HasPrefix(object.GetName(), "nodemend-remote-runner") && object.GetKind() != "Deployment" && object.GetKind() != "PodDisruptionBudget"
		if ofRunner || object.GetName() == "nodemend-controller-nodes" || object.GetName() == "nodemend-controller" && object.GetKind() == "ClusterRole" {
			s.Must(s.plane.Apply(s.Ctx, client.ApplyConfigurationFromUnstructured(&object), client.FieldOwner("test"), client.ForceOwnership))
		}
	}
	const role = "remote-runner"
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "nodemend-" + role, Namespace: namespace},
		Spec: corev1.PodSpec{
			NodeName: "neighbour-0", ServiceAccountName: "nodemend-" + role, Containers: []corev1.Container{{Name: role, Image: "nodemend"}},
		},
	}
	s.Must(s.plane.Create(s.Ctx, pod))
	account, err := s.plane.account(s.Ctx, role, pod)
	s.Must(err)
	kubeconfig := filepath.Join(s.plane.dir, role+".kubeconfig")
	s.Must(cluster.WriteKubeconfig(kubeconfig, account))
	// It is the only one, as the controller is.
	s.begins("nodemend", "runner", "--remote", "--maintenance-power", "--config="+config, "--kubeconfig="+kubeconfig, "--leader-election=false")
}
