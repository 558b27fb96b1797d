package offline

import (
	"context"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apimachinery/pkg/api/operation"
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// decodedObject is an object as the API server has it after decoding a create
// request.
type decodedObject struct {
	object map[string]any
	meta   *metav1.ObjectMeta
	// metaErr says which part of metadata has the wrong type; meta is then
	// what is left without it.
	metaErr error
	// unknownFields are the fields that were removed since the schema does not
	// know them.
	unknownFields []string
}

// decode does with an object what the API server does when it decodes a
// create request: it removes what the schema does not know, drops the system
// fields of the metadata and fills in the defaults. It changes the object.
func (k *kindRules) decode(object map[string]any) decodedObject {
	d := decodedObject{object: object}
	options := objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true}
	d.meta, _, d.unknownFields, d.metaErr = objectmeta.GetObjectMetaWithOptions(object, options)
	if d.metaErr != nil {
		options.DropMalformedFields = true
		d.meta, _, d.unknownFields, _ = objectmeta.GetObjectMetaWithOptions(object, options)
	}
	if d.meta == nil {
		d.meta = &metav1.ObjectMeta{}
	}
	d.unknownFields = append(d.unknownFields, k.Decode(object)...)

	// Whatever the file says, a create request decides on these, and an
	// object of these kinds has no namespace, or that of the request.
	d.meta.UID, d.meta.Namespace = "", ""
	d.meta.CreationTimestamp, d.meta.DeletionTimestamp, d.meta.DeletionGracePeriodSeconds = metav1.Time{}, nil, nil
	d.meta.Generation = 1
	object["metadata"] = map[string]any{}
	if d.meta.Name != "" {
		object["metadata"] = map[string]any{"name": d.meta.Name}
	}
	if k.HasStatus() {
		delete(object, "status")
	}
	return d
}

// validate applies the rules as the API server does on create
// (customResourceStrategy.Validate in apiextensions-apiserver; our kinds embed
// no other objects, which it would check as well). Where the schema holds something against
// the object, the API server leaves the CEL rules out; here those about the rest are applied.
func (k *kindRules) validate(ctx context.Context, d decodedObject) field.ErrorList {
	const clusterScoped, betaRules = false, true // betaRules: as by default since Kubernetes 1.36
	errs := metavalidation.ValidateObjectMetaDeclaratively(ctx, operation.Create, named(d.meta), nil, clusterScoped,
		metavalidation.NameIsDNSSubdomain, field.NewPath("metadata"), betaRules)
	broken, complete := k.Validate(ctx, d.object, nil)
	errs = append(errs, broken...)
	if !complete {
		errs = append(errs, notAbout(broken, k.ValidateCEL(ctx, d.object, nil))...)
	}
	return errs
}

// named returns metadata that has a name: where one is to be generated, one
// of the kind that would be.
func named(meta *metav1.ObjectMeta) *metav1.ObjectMeta {
	if meta.Name != "" || meta.GenerateName == "" {
		return meta
	}
	const longestPrefix, suffix = 58, "xxxxx"
	meta = meta.DeepCopy()
	meta.Name = meta.GenerateName[:min(len(meta.GenerateName), longestPrefix)] + suffix
	return meta
}
