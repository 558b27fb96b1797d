// Package fieldmanager has the name under which the API server records what the controller
// writes, in metadata.managedFields.
package fieldmanager

import "sigs.k8s.io/controller-runtime/pkg/client"

// Controller is the option of every write of the controller.
const Controller = client.FieldOwner("nodemend-controller")
