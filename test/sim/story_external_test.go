package sim

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/gates"
	"github.com/nodemend/nodemend/test/apiserver"
)

// remediator is another program's, which keeps the contract, and takes nothing for its own that does
// not. It taints the node while it has it, as SelfNodeRemediation does.
type remediator struct {
	s    *stage
	node *node
	// plan is what it does with each object.
	plan plan
	// dead: it does nothing any more.
	dead bool
	// seen are the objects so far, by their UIDs: of which action they are.
	seen map[types.UID]types.UID
	// plans are by the UIDs of objects.
	plans map[types.UID]*plan
	told  bool
}

// remediates has the remediator installed, and at work.
func (s *stage) remediates(n *node) *remediator {
	s.create(remediatorTemplate())
	m := &remediator{s: s, node: n, seen: map[types.UID]types.UID{}, plans: map[types.UID]*plan{}}
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
	p := m.plans[object.GetUID()]
	if p == nil {
		p = &plan{}
		*p = m.plan
		m.plans[object.GetUID()] = p
	}
	if m.s.worksOn(object, m.node, p) {
		m.s.must(m.s.admin.Update(m.s.ctx, object))
	}
}

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
	if m.node.object() == nil { // see TestAnotherProgramThatNeverLetsGoOfANodeThatIsGone
		return
	}
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
		m.s.remediatorTaints(m.node.name, false)
	}
}

// heals is how a remediator makes a node well.
var heals = plan{succeeded: "True", healing: true, after: 3 * time.Minute}

func TestAnotherProgramHealsANode(t *testing.T) {
	for name, pause := range map[string]bool{"nobody pauses": false, "all is paused meanwhile": true} {
		tellAll(t, 4, story{name, func(s *stage) {
			n := s.scene("n1")
			s.policy(nil, external(), park())
			m := s.remediates(n)
			m.plan = heals
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
	for name, p := range map[string]plan{"it lies": {succeeded: "True"}, "it takes too long": {}} {
		tellAll(t, 6, story{name, func(s *stage) {
			n := s.scene("n1")
			s.policy(nil, external(), command("cure"))
			played := s.remediates(n)
			played.plan = p
			s.begin()
			n.fail(sick, v1alpha1.RemedyCommand)
			s.until("the next step ran", func() bool { return len(n.executions) == 1 })
			expect(s, "its object is gone", played.object() == nil, true)
			expect(s, "it was told to stop", played.told, true)
			s.back(n)
			want := "1/1 TimedOut"
			if p.succeeded != "" {
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

// SelfNodeRemediation before 0.12 lets go of a node only once that is uncordoned for a second. Who cordons
// it again at once keeps it from that for ever.
func TestAnotherProgramThatUncordonsANodeMayLetGo(t *testing.T) {
	healed, vain := heals, plan{succeeded: "True"}
	healed.uncordons, vain.uncordons = true, true
	tellAll(t, 12, story{"the node is well", func(s *stage) {
		n := s.scene("n1")
		s.policy(nil, external(), park())
		m := s.remediates(n)
		m.plan = healed
		s.begin()
		n.fail(sick, "")
		s.until("its object is there", func() bool { return m.object() != nil })
		s.back(n)
		expect(s, "history", s.records(n), []string{"1/1 Succeeded"})
		expect(s, "its object is gone", m.object() == nil, true)
	}}, story{"it is not, and is cordoned again for the next step", func(s *stage) {
		n := s.scene("n1")
		s.policy(nil, external(), park())
		m := s.remediates(n)
		m.plan = vain
		s.begin()
		n.fail(sick, "")
		s.parked(n)
		expect(s, "its object is gone", m.object() == nil, true)
		s.pass(time.Minute)
		expect(s, "service", n.service(), outByUs)
	}})
}

// FenceAgentsRemediation never lets go of an object whose Node is gone.
func TestAnotherProgramThatNeverLetsGoOfANodeThatIsGone(t *testing.T) {
	for name, p := range map[string]plan{"it says that it does nothing": {stays: true}, "it has died": {}} {
		tellAll(t, 12, story{name, func(s *stage) {
			n := s.scene("n1")
			s.policy(nil, external())
			m := s.remediates(n)
			m.plan = p
			s.begin()
			n.fail(sick, "")
			s.until("it has begun", func() bool { return m.object() != nil && len(m.object().GetFinalizers()) > 0 })
			m.dead = !p.stays
			s.people.replaced[n.name] = true
			s.remove(n.object())
			s.until("the permit is returned", func() bool { return len(s.permits()) == 0 })
			expect(s, "its object is left", m.object() != nil, true)
			if p.stays {
				s.until("it is over", func() bool { return s.only(n).Ended() })
				expect(s, "state", s.state(n), v1alpha1.ReasonNodeGone)
				expect(s, "it was told to stop", m.told, true)
			} else {
				expect(s, "its remediation waits", s.only(n).Ended(), false)
			}
			m.dead = true
			m.gone()
		}})
	}
}

// Metal3Remediation may delete the Node while it switches the machine. It is let do so, and what comes
// back is no other node, as far as the policy's limits go.
func TestAnotherProgramDeletesTheNodeAndBringsItBack(t *testing.T) {
	tellAll(t, 40, story{"in vain", func(s *stage) {
		n := s.scene("n1")
		s.policy(func(p *v1alpha1.RemedyPolicySpec) {
			p.MaxRemediations = &v1alpha1.Rate{Count: 2, Per: duration(24 * time.Hour)}
		}, external(), park())
		m := s.remediates(n)
		m.plan = plan{replaces: true, after: 3 * time.Minute}
		s.begin()
		n.fail(sick, "")
		s.pass(time.Hour)
		expect(s, "objects", len(m.seen), 2)
		expect(s, "its object is gone", m.object() == nil, true)
		for _, p := range m.plans {
			expect(s, "it was let bring the node back", p.done, true)
		}
		expect(s, "state", s.open(n), v1alpha1.ReasonWaiting+"/"+gates.ReasonMaxRemediations)
	}})
}

// Its object is not deleted because the node is clear for a moment: it may be between off and on.
func TestAnotherProgramIsNotStoppedByAMomentOfHealth(t *testing.T) {
	tellAll(t, 12, story{"between off and on", func(s *stage) {
		n := s.scene("n1")
		s.policy(nil, external(), park())
		m := s.remediates(n)
		m.plan = plan{succeeded: "True", after: 3 * time.Minute}
		s.begin()
		n.fail(sick, "")
		s.until("it has begun", func() bool { return m.object() != nil && len(m.object().GetFinalizers()) > 0 })
		n.repair()
		s.until("the node is clear", func() bool { return n.status(sick) == corev1.ConditionFalse })
		m.plans[m.object().GetUID()].switches = true
		n.powerOff()
		s.until("it is on again", func() bool { return n.up })
		s.back(n)
		expect(s, "its object is gone", m.object() == nil, true)
	}})
}
