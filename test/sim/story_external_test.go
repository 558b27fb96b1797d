package sim

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/apiserver"
)

// remediator is another program's, which keeps the contract, and takes nothing for its own that does
// not. It taints the node while it has it, as SelfNodeRemediation does.
type remediator struct {
	s    *stage
	node *node
	// heals is after how long it makes the node well; 0: it never does. lies: it says so all the same.
	heals time.Duration
	lies  bool
	// dead: it does nothing any more.
	dead  bool
	since time.Time
	// seen are the objects so far, by their UIDs: of which action they are.
	seen map[types.UID]types.UID
	told bool
}

// remediates has the remediator installed, and at work.
func (s *stage) remediates(n *node) *remediator {
	s.create(remediatorTemplate())
	m := &remediator{s: s, node: n, seen: map[types.UID]types.UID{}}
	s.after(time.Second, m.look)
	return m
}

// object is that of the node, nil if there is none.
func (m *remediator) object() *unstructured.Unstructured {
	return m.s.remediatorObject(m.node.name)
}

// look looks at the object, as long as the story lasts.
func (m *remediator) look() {
	m.s.after(5*time.Second, m.look)
	object := m.object()
	if object == nil {
		return
	}
	m.check(object)
	if m.dead {
		return
	}
	_, stop := object.GetAnnotations()[timedOut]
	m.told = m.told || stop
	switch {
	case object.GetDeletionTimestamp() != nil:
		m.taint(false)
		controllerutil.RemoveFinalizer(object, remediatorFinalize)
	case stop:
		says(object, "False", "False")
	case !controllerutil.ContainsFinalizer(object, remediatorFinalize):
		m.since = time.Now()
		m.taint(true)
		controllerutil.AddFinalizer(object, remediatorFinalize)
		says(object, "True", "Unknown")
	case m.lies || m.heals > 0 && time.Since(m.since) >= m.heals:
		if !m.lies {
			m.node.repair()
		}
		says(object, "False", "True")
	default:
		return
	}
	m.s.must(m.s.admin.Update(m.s.ctx, object))
}

func (m *remediator) taint(wanted bool) { m.s.remediatorTaints(m.node.name, wanted) }

// check holds the controller to the contract, to I1 and to I2.
func (m *remediator) check(object *unstructured.Unstructured) {
	owners, annotations := object.GetOwnerReferences(), object.GetAnnotations()
	if len(owners) != 1 || owners[0].Kind != "NodeAction" || annotations["remediation.medik8s.io/node-name"] != m.node.name ||
		annotations["remediation.medik8s.io/template-name"] != "automatic" || object.GetLabels()["app.kubernetes.io/part-of"] == "" {
		m.s.miss("the remediator does not take this for its own: %v", object.Object["metadata"])
	}
	m.seen[object.GetUID()] = owners[0].UID
	for uid, action := range m.seen {
		if uid != object.GetUID() && action == owners[0].UID {
			m.s.broken("I2: another program's object is created at most once for an action", "of action %s", owners[0].Name)
		}
	}
	action := apiserver.Peek[*v1alpha1.NodeAction](m.s.server, client.ObjectKey{Name: owners[0].Name})
	if action == nil || action.Finished() != nil {
		m.s.broken("I1: an action lasts until another program's object is gone", "%s", owners[0].Name)
		return
	}
	for _, b := range stored[*v1alpha1.RemediationBudget](m.s.oracles) {
		if !holds(b, m.node.name, action.Spec.Remediation) {
			m.s.broken("I1: a permit is kept while another program's object is there", "budget %s, action %s", b.Name, action.Name)
		}
	}
}

// gone lets a person remove the finalizers of its object.
func (m *remediator) gone() {
	if object := m.object(); object != nil {
		object.SetFinalizers(nil)
		m.s.must(m.s.admin.Update(m.s.ctx, object))
		m.taint(false)
	}
}

func TestAnotherProgramHealsANode(t *testing.T) {
	for name, pause := range map[string]bool{"nobody pauses": false, "all is paused meanwhile": true} {
		tellAll(t, 4, story{name, func(s *stage) {
			n := s.scene("n1")
			s.policy(nil, external(), park())
			m := s.remediates(n)
			m.heals = 3 * time.Minute
			s.begin()
			n.fail(sick, "")
			s.until("its object is there", func() bool { return m.object() != nil })
			if pause {
				s.edit(func(p *v1alpha1.RemedyPolicySpec) { p.Paused = true })
			}
			s.back(n)
			expect(s, "state", s.state(n), recovered)
			expect(s, "history", s.records(n), []string{"1/1 Succeeded"})
			expect(s, "its object is gone", m.object() == nil, true)
			expect(s, "it was told to stop", m.told, false)
		}})
	}
}

// What it says is no proof: the next step comes when the node is still sick, and not before its object
// is gone.
func TestAfterAnotherProgramComesTheNextStep(t *testing.T) {
	for name, m := range map[string]remediator{"it lies": {lies: true}, "it takes too long": {}} {
		tellAll(t, 6, story{name, func(s *stage) {
			n := s.scene("n1")
			s.policy(nil, external(), command("cure"))
			played := s.remediates(n)
			played.lies = m.lies
			s.begin()
			n.fail(sick, v1alpha1.RemedyCommand)
			s.until("the next step ran", func() bool { return len(n.executions) == 1 })
			expect(s, "its object is gone", played.object() == nil, true)
			expect(s, "it was told to stop", played.told, true)
			s.back(n)
			want := "1/1 TimedOut"
			if m.lies {
				want = "1/1 Succeeded"
			}
			expect(s, "history", s.records(n), []string{want, "2/1 Succeeded"})
		}})
	}
}

func TestAnotherProgramThatDiesKeepsTheNode(t *testing.T) {
	tellAll(t, 6, story{"its finalizer stays", func(s *stage) {
		n := s.scene("n1")
		s.policy(nil, external(), command("cure"))
		m := s.remediates(n)
		s.begin()
		n.fail(sick, v1alpha1.RemedyCommand)
		s.until("it has begun", func() bool { return m.object() != nil && len(m.object().GetFinalizers()) > 0 })
		m.dead = true
		s.comesTo(n, v1alpha1.ReasonActing+"/"+v1alpha1.ReasonStillRunning)
		s.pass(5 * time.Hour)
		expect(s, "executions", n.ran(), []string{})
		expect(s, "state", s.state(n), v1alpha1.ReasonActing+"/"+v1alpha1.ReasonStillRunning)
		expect(s, "it tells why", strings.Contains(s.only(n).Status.Conditions[1].Message+s.only(n).Status.Conditions[2].Message, remediatorFinalize), true)
		m.gone()
		s.back(n)
		expect(s, "history", s.records(n), []string{"1/1 TimedOut", "2/1 Succeeded"})
	}})
}

func TestAPersonDeletesTheObjectOfAnotherProgram(t *testing.T) {
	tellAll(t, 6, story{"deleted", func(s *stage) {
		n := s.scene("n1")
		s.policy(nil, external(), command("cure"))
		m := s.remediates(n)
		s.begin()
		n.fail(sick, v1alpha1.RemedyCommand)
		s.until("it has begun", func() bool { return m.object() != nil && len(m.object().GetFinalizers()) > 0 })
		s.must(s.admin.Delete(s.ctx, m.object()))
		s.back(n)
		expect(s, "objects", len(m.seen), 1)
		expect(s, "history", s.records(n), []string{"1/1 Failed", "2/1 Succeeded"})
	}})
}

func TestARemediationIsDeletedWhileAnotherProgramHasTheNode(t *testing.T) {
	tellAll(t, 6, story{"deleted", func(s *stage) {
		n := s.scene("n1")
		s.policy(nil, external())
		m := s.remediates(n)
		s.begin()
		n.fail(sick, "")
		s.until("it has begun", func() bool { return m.object() != nil && len(m.object().GetFinalizers()) > 0 })
		s.remove(s.only(n))
		s.until("its object is gone", func() bool { return m.object() == nil })
		expect(s, "it was told to stop", m.told, true)
		s.until("the permit is returned", func() bool { return len(s.permits()) == 0 })
	}})
}
