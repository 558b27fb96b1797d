package v1alpha1

// ExcludeLabel on a node with the value "true" keeps every new action away
// from it. What is under way is finished or given back.
const ExcludeLabel = "nodemend.dev/exclude"
