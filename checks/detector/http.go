package detector

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/nodemend/nodemend/checks/exporter"
	"github.com/nodemend/nodemend/internal/serve"
)

// healthy is a part of the detector that can tell whether it makes progress.
type healthy interface{ Healthy() error }

// progress returns a function whose error has one line for each part that has stopped
// making progress, so that a restart may help; what the checks have found does not
// matter there.
func progress(parts []healthy) func() error {
	return func() error {
		var errs []error
		for _, part := range parts {
			errs = append(errs, part.Healthy())
		}
		return errors.Join(errs...)
	}
}

// newHealthHandler serves /healthz: 200 and "ok", or 503 and the error of progress. It
// serves /conditions, too: the conditions as the detector reports them, whether or not
// the API server has them.
func newHealthHandler(conditions *exporter.Exporter, progress func() error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", serve.Health(progress))
	mux.HandleFunc("GET /conditions", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(conditions.Conditions()) // the client has gone: nobody to tell
	})
	return mux
}
