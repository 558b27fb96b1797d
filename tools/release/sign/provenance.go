package main

import (
	"crypto/ecdsa"
	"runtime"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
)

const (
	payloadType   = "application/vnd.in-toto+json"
	statementType = "https://in-toto.io/Statement/v1"
	// page explains what of the provenance is particular to this project.
	page = "https://github.com/nodemend/nodemend/blob/main/docs/verify.md"
)

// provenance returns an in-toto statement about how the subjects were built, in an
// envelope. See slsa.dev/provenance/v1 and the DSSE protocol. It has no times, so that
// another build of the same commit says the same.
func (r release) provenance(key *ecdsa.PrivateKey, subjects []map[string]any) (dsse.Envelope, error) {
	return envelope(key, map[string]any{
		"_type":         statementType,
		"subject":       subjects,
		"predicateType": "https://slsa.dev/provenance/v1",
		"predicate": map[string]any{
			"buildDefinition": map[string]any{
				"buildType":          page + "#what-the-provenance-says",
				"externalParameters": map[string]any{"version": r.version, "image": r.image, "sourceDateEpoch": r.time.Unix()},
				"internalParameters": map[string]string{"go": runtime.Version()},
				"resolvedDependencies": []map[string]any{{
					"uri": "git+https://github.com/nodemend/nodemend", "digest": map[string]string{"gitCommit": r.commit},
				}},
			},
			"runDetails": map[string]any{"builder": map[string]string{"id": page + "#who-has-built-it"}},
		},
	})
}

// subject describes something that the provenance is about.
func subject(name, sha256 string) map[string]any {
	return map[string]any{"name": name, "digest": map[string]string{"sha256": sha256}}
}
