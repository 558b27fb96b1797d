package machines

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/containerinfra/v1/clusters"
	"github.com/gophercloud/gophercloud/v2/openstack/containerinfra/v1/nodegroups"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/remote"
	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/openstack"
	"github.com/nodemend/nodemend/runner"
)

const (
	// openStackGroup stands for OpenStack where other owners have the group of their API.
	openStackGroup = "openstack.org"
	// markMetadata, of a server, is the action that has it removed. Nova accepts no slash there. It is
	// set before Magnum is asked, and Magnum is asked once after it was set: its API takes any number
	// of requests for one server, also while it is at work, and has no version that a request could name.
	markMetadata = "nodemend-replace"
	// markSettles is how long after the mark was seen it is taken for sure that Magnum would have
	// begun: it changes the status of the node group when it takes a request up, and that of the cluster
	// when Heat has begun.
	markSettles = 2 * time.Minute
)

// magnum has the servers of one cluster of Magnum, by Nova, and its node groups.
type magnum struct {
	// nodes has those of this cluster.
	nodes  client.Client
	config remote.Magnum
}

// asked is a session with both services.
type asked struct {
	*openstack.Session
	magnum *gophercloud.ServiceClient
}

func (m magnum) ask(ctx context.Context) (a asked, err error) {
	if a.Session, err = m.config.Of().Open(ctx); err != nil {
		return a, err
	}
	a.magnum, err = a.Magnum()
	return a, err
}

// cluster returns the cluster of the configuration.
func (m magnum) cluster(ctx context.Context, a asked) (*clusters.Cluster, error) {
	cluster, err := clusters.Get(ctx, a.magnum, m.config.Cluster).Extract()
	if err != nil {
		return nil, a.Explain("Magnum cluster "+m.config.Cluster, err)
	}
	if !strings.EqualFold(cluster.UUID, m.config.Cluster) {
		return nil, fmt.Errorf("asked for Magnum cluster %s, Magnum answers with %.80q", m.config.Cluster, cluster.UUID)
	}
	return cluster, nil
}

// of implements owner. A server is found by the providerID, which a Node can't change. Its name and
// addresses are Nova's, and the addresses say of which node group it is.
func (m magnum) of(ctx context.Context, node *corev1.Node, _ *v1alpha1.Request) (none runner.Machine, refusal string, err error) {
	id, is := openstack.ServerID(node.Spec.ProviderID)
	if !is {
		return none, fmt.Sprintf("spec.providerID of node %s is %.80q: accepted is openstack:///ID of a server", node.Name, node.Spec.ProviderID), nil
	}
	a, err := m.ask(ctx)
	if err != nil {
		return none, "", err
	}
	cluster, err := m.cluster(ctx, a)
	if errors.Is(err, openstack.ErrNotFound) {
		return none, fmt.Sprintf("there is no Magnum cluster %s, which replace.magnum of remote.yaml names: %v", m.config.Cluster, err), nil
	}
	if err != nil {
		return none, "", err
	}
	server, _, err := a.Server(ctx, id)
	if errors.Is(err, openstack.ErrNotFound) {
		return none, fmt.Sprintf("there is no server %s, which spec.providerID of node %s names: %v", id, node.Name, err), nil
	}
	if err != nil {
		return none, "", err
	}
	if refusal = leftServer(server, node.Name); refusal != "" {
		return none, refusal, nil
	}
	if !complete(cluster.Status) {
		return none, fmt.Sprintf("Magnum cluster %s is %.80s: nothing is removed unless it is CREATE_COMPLETE, UPDATE_COMPLETE or the like", cluster.UUID, cluster.Status), nil
	}
	group, refusal, err := m.groupOf(ctx, a, server)
	if refusal != "" || err != nil {
		return none, refusal, err
	}
	return runner.Machine{
		Object: v1alpha1.ExternalObject{APIVersion: openStackGroup + "/v1", Kind: "Server", Name: server.Name, UID: types.UID(id)},
		Owner: v1alpha1.ExternalObject{
			APIVersion: openStackGroup + "/v1", Kind: "NodeGroup", Namespace: strings.ToLower(cluster.UUID), Name: group.Name, UID: types.UID(group.UUID),
		},
		Method: v1alpha1.ReplaceRemediate, Version: strconv.Itoa(group.NodeCount),
	}, "", nil
}

// leftServer says why a server is left to others.
func leftServer(server *servers.Server, node string) string {
	by, marked := server.Metadata[markMetadata]
	switch {
	case !strings.EqualFold(server.Name, node):
		return fmt.Sprintf("server %s, which spec.providerID of node %s names, has the name %.80q: is it of another node?", server.ID, node, server.Name)
	case goes(server):
		return fmt.Sprintf("server %s is being deleted: %.40s, task_state %.40s", server.ID, server.Status, server.TaskState)
	case marked:
		return fmt.Sprintf("server %s is being removed already, in the name of NodeAction %.80s. If that is over: openstack server unset --property %s %s", server.ID, by, markMetadata, server.ID)
	default:
		return ""
	}
}

// groupOf returns the node group of a server, which makes a new one in its place; the refusal says that
// none does.
func (m magnum) groupOf(ctx context.Context, a asked, server *servers.Server) (found *nodegroups.NodeGroup, refusal string, err error) {
	pages, err := nodegroups.List(a.magnum, m.config.Cluster, nodegroups.ListOpts{}).AllPages(ctx)
	if err != nil {
		return nil, "", a.Explain("the node groups of Magnum cluster "+m.config.Cluster, err)
	}
	all, err := nodegroups.ExtractNodeGroups(pages)
	if err != nil {
		return nil, "", a.Explain("the node groups of Magnum cluster "+m.config.Cluster, err)
	}
	for i := range all {
		group, err := m.nodeGroup(ctx, a, all[i].UUID)
		if err != nil {
			return nil, "", err
		}
		if !isOf(server, group) {
			continue
		}
		if found != nil {
			return nil, fmt.Sprintf("node groups %s and %s of Magnum cluster %s both have an address of server %s", found.Name, group.Name, m.config.Cluster, server.ID), nil
		}
		found = group
	}
	switch {
	case found == nil:
		return nil, fmt.Sprintf("no node group of Magnum cluster %s has an address of server %s (%s), so nobody would make a new one", m.config.Cluster, server.ID, strings.Join(addresses(server), ", ")), nil
	case found.Role == "master":
		return nil, fmt.Sprintf("server %s is of node group %s, which is of the control plane: Magnum does not replace these", server.ID, found.Name), nil
	case !complete(found.Status):
		return nil, fmt.Sprintf("node group %s of Magnum cluster %s is %.80s: nothing is removed unless it is CREATE_COMPLETE, UPDATE_COMPLETE or the like", found.Name, m.config.Cluster, found.Status), nil
	case len(found.NodeAddresses) > found.NodeCount:
		return nil, fmt.Sprintf("server %s would not be replaced: node group %s has %d nodes, and wants %d", server.ID, found.Name, len(found.NodeAddresses), found.NodeCount), nil
	default:
		return found, "", nil
	}
}

func (m magnum) nodeGroup(ctx context.Context, a asked, id string) (*nodegroups.NodeGroup, error) {
	group, err := nodegroups.Get(ctx, a.magnum, m.config.Cluster, id).Extract()
	if err != nil {
		return nil, a.Explain("node group "+id+" of Magnum cluster "+m.config.Cluster, err)
	}
	if group.UUID != id {
		return nil, fmt.Errorf("asked for node group %s, Magnum answers with %.80q", id, group.UUID)
	}
	return group, nil
}

// send marks the server, and has Magnum remove it, with as many nodes as before. A mark that is there
// says that Magnum was asked, or was not to be asked any more.
func (m magnum) send(ctx context.Context, machine *runner.Machine, action string) error {
	id := string(machine.Object.UID)
	a, err := m.ask(ctx)
	if err != nil {
		return err
	}
	cluster, err := m.cluster(ctx, a) // which says that this is its project
	if err != nil {
		return err
	}
	server, compute, err := a.Server(ctx, id)
	if errors.Is(err, openstack.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	group, err := m.nodeGroup(ctx, a, string(machine.Owner.UID))
	if err != nil {
		return err
	}
	switch by, marked := server.Metadata[markMetadata]; {
	case by == action:
		return nil
	case marked || goes(server) || !complete(cluster.Status) || !complete(group.Status) || strconv.Itoa(group.NodeCount) != machine.Version:
		return changed(&machine.Object)
	}
	if _, err := servers.CreateMetadatum(ctx, compute, id, servers.MetadatumOpts{markMetadata: action}).Extract(); err != nil {
		return a.Explain("marking server "+id, err)
	}
	count := group.NodeCount
	_, err = clusters.Resize(ctx, a.magnum, m.config.Cluster, clusters.ResizeOpts{NodeCount: &count, NodesToRemove: []string{id}, NodeGroup: group.UUID}).Extract()
	var status gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &status) && status.Actual >= 400 && status.Actual < 500 && status.Actual != http.StatusRequestTimeout { // it has not, and will not
		return errors.Join(a.Explain("removing server "+id, err), m.unmark(ctx, a, compute, id))
	}
	return a.Explain("removing server "+id, err)
}

// takeBack takes the mark away, unless Magnum is at work: it may be with this server.
func (m magnum) takeBack(ctx context.Context, of *v1alpha1.ReplaceStatus, _ runner.MachineSeen) error {
	a, err := m.ask(ctx)
	if err != nil {
		return err
	}
	server, compute, err := a.Server(ctx, string(of.Machine.UID))
	if errors.Is(err, openstack.ErrNotFound) {
		return changed(&of.Machine)
	}
	if err != nil {
		return err
	}
	cluster, err := m.cluster(ctx, a)
	switch {
	case err != nil:
		return err
	case goes(server):
		return changed(&of.Machine)
	}
	if status, err := m.atWork(ctx, a, cluster, of); err != nil {
		return err
	} else if status != "" {
		return changed(&of.Machine)
	}
	return m.unmark(ctx, a, compute, server.ID)
}

func (magnum) unmark(ctx context.Context, a asked, compute *gophercloud.ServiceClient, id string) error {
	err := a.Explain("taking the mark of server "+id+" away", servers.DeleteMetadatum(ctx, compute, id, markMetadata).ExtractErr())
	if errors.Is(err, openstack.ErrNotFound) {
		return nil
	}
	return err
}

// look implements owner.
func (m magnum) look(ctx context.Context, of *v1alpha1.ReplaceStatus, action string, now time.Time) (runner.MachineSeen, error) {
	a, err := m.ask(ctx)
	if err != nil {
		return runner.MachineSeen{}, err
	}
	// Only in the project of the cluster it says something that a server is not there.
	cluster, err := m.cluster(ctx, a)
	if err != nil {
		return runner.MachineSeen{}, err
	}
	server, _, err := a.Server(ctx, string(of.Machine.UID))
	if errors.Is(err, openstack.ErrNotFound) {
		return runner.MachineSeen{}, nil
	}
	if err != nil {
		return runner.MachineSeen{}, err
	}
	seen := runner.MachineSeen{There: true, Marked: server.Metadata[markMetadata] == action, Said: "it is there"}
	status := ""
	if seen.Marked {
		if status, err = m.atWork(ctx, a, cluster, of); err != nil {
			return runner.MachineSeen{}, err
		}
	}
	settled := of.SentAt != nil && now.Sub(of.SentAt.Time) >= markSettles
	switch {
	case goes(server):
		seen.Leaving, seen.Said = true, fmt.Sprintf("Nova is deleting it: %.40s, task_state %.40s", server.Status, server.TaskState)
	case status != "":
		seen.Leaving, seen.Said = true, "it is to be removed, and its Magnum cluster, or node group, is "+status
	case seen.Marked && !settled:
		seen.Leaving, seen.Said = true, "it is to be removed, as Magnum was told"
	case seen.Marked:
		seen.Said = fmt.Sprintf("it is to be removed (metadata %s), and its Magnum cluster is %.80s: has Magnum, or Heat, failed? %.300s", markMetadata, cluster.Status, cluster.StatusReason)
	}
	return seen, nil
}

// group implements owner. Magnum knows addresses of servers, and Nova whose they are. A node is that of the server
// of its name which its providerID names: its own addresses its kubelet writes, so root on it can name any.
func (m magnum) group(ctx context.Context, of *v1alpha1.ReplaceStatus) (runner.MachineGroup, error) {
	group := runner.MachineGroup{Wants: -1}
	a, err := m.ask(ctx)
	if err != nil {
		return group, err
	}
	cluster, err := m.cluster(ctx, a)
	if err != nil {
		return group, err
	}
	found, err := m.nodeGroup(ctx, a, string(of.Owner.UID))
	switch {
	case errors.Is(err, openstack.ErrNotFound):
		group.Gone = of.Owner.String() + ": it is gone"
		return group, nil
	case err != nil:
		return group, err
	case strings.HasPrefix(cluster.Status, "DELETE_") || strings.HasPrefix(found.Status, "DELETE_"):
		group.Gone = of.Owner.String() + ": it, or its cluster, is being deleted"
		return group, nil
	}
	group.Wants = int32(min(max(found.NodeCount, 0), 1<<30)) //nolint:gosec // bounded
	inNova, err := a.Servers(ctx)
	if err != nil {
		return group, err
	}
	var nodes corev1.NodeList
	if err := m.nodes.List(ctx, &nodes); err != nil {
		return group, fmt.Errorf("listing nodes: %w", err)
	}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		id, _ := openstack.ServerID(node.Spec.ProviderID)
		server := inNova[id]
		if server != nil && strings.EqualFold(server.Name, node.Name) && isOf(server, found) {
			group.Nodes = append(group.Nodes, node.Name)
		}
	}
	return group, nil
}

// goes reports whether Nova is deleting a server, or has.
func goes(server *servers.Server) bool {
	return server.Status == "DELETED" || server.Status == "SOFT_DELETED" || server.TaskState == "deleting" || server.TaskState == "soft-deleting"
}

// complete reports whether a cluster, or a node group, is as it was wanted last, and is to stay.
func complete(status string) bool {
	return strings.HasSuffix(status, "_COMPLETE") && !strings.HasPrefix(status, "DELETE_")
}

// atWork returns the status by which Magnum is changing a cluster, or the node group of a machine; "": it
// changes neither.
func (m magnum) atWork(ctx context.Context, a asked, cluster *clusters.Cluster, of *v1alpha1.ReplaceStatus) (string, error) {
	const inProgress = "_IN_PROGRESS"
	if strings.HasSuffix(cluster.Status, inProgress) {
		return cluster.Status, nil
	}
	group, err := m.nodeGroup(ctx, a, string(of.Owner.UID))
	switch {
	case errors.Is(err, openstack.ErrNotFound):
		return "", nil
	case err != nil:
		return "", err
	case strings.HasSuffix(group.Status, inProgress):
		return group.Status, nil
	}
	return "", nil
}

// isOf reports whether a server is of a node group, as Nova and Magnum say.
func isOf(server *servers.Server, group *nodegroups.NodeGroup) bool {
	has := addresses(server)
	return slices.ContainsFunc(group.NodeAddresses, func(address string) bool { return slices.Contains(has, address) })
}

// addresses are those of a server, as Nova has them.
func addresses(server *servers.Server) (all []string) {
	for _, of := range server.Addresses {
		list, _ := of.([]any)
		for _, item := range list {
			fields, _ := item.(map[string]any)
			if address, _ := fields["addr"].(string); address != "" {
				all = append(all, address)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// changed is of a machine that is not any more what it was when it was read.
func changed(o *v1alpha1.ExternalObject) error {
	return apierrors.NewConflict(schema.GroupResource{Group: openStackGroup, Resource: "servers"}, o.Name, errors.New("it, or its cluster, has changed since it was read"))
}
