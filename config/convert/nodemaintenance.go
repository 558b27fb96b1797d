package convert

import "github.com/nodemend/nodemend/internal/cut"

// nodeMaintenance converts one of medik8s.
func (c *conversion) nodeMaintenance(v value) {
	name := v.name()
	spec := v.get("spec")
	node := spec.get("nodeName").required("the name of a node")
	reason := spec.get("reason").scalar("a text")
	o := c.result("NodeMaintenance", name, from(v, "NodeMaintenance", name),
		"It acts as soon as it is applied; there is no DryRun of it.")
	o.add("nodeName: "+quoted(node), "")
	if reason == "" {
		o.add("reason: moved from NodeMaintenance of medik8s", "it gives none")
	} else {
		o.add("reason: "+quoted(cut.Head(reason, 256)), "")
	}
	o.add("drain: {force: true, deleteEmptyDirData: true}", "as it drains; the timeout is 1h")
	spec.rest("NodeMaintenance")
	v.rest("NodeMaintenance", "apiVersion", "kind", "metadata", "status")
	c.told(o, v.in.file)
}
