//go:build integration

package monitoring

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// prometheus is the API of one.
type prometheus struct{ url string }

// series is a result of a query.
type series struct {
	Metric map[string]string
	Value  point
	Values []point
}

func (s series) last() float64 {
	if len(s.Values) > 0 {
		return s.Values[len(s.Values)-1].value
	}
	return s.Value.value
}

// point is a value at a time, in Unix seconds.
type point struct{ time, value float64 }

// UnmarshalJSON implements json.Unmarshaler: [time, "value"].
func (p *point) UnmarshalJSON(data []byte) (err error) {
	var text string
	if err := json.Unmarshal(data, &[]any{&p.time, &text}); err != nil {
		return err
	}
	p.value, err = strconv.ParseFloat(text, 64)
	return err
}

// get decodes the data of an answer.
func (p prometheus) get(ctx context.Context, path string, args url.Values, data any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/api/v1/"+path+"?"+args.Encode(), nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // it was read
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return fmt.Errorf("%s answered with status %s: %w", path, response.Status, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s %v: %s", path, args, answer.Error)
	}
	return json.Unmarshal(answer.Data, data)
}

func (p prometheus) query(ctx context.Context, expr string, at time.Time) ([]series, error) {
	var data struct{ Result []series }
	err := p.get(ctx, "query", url.Values{"query": {expr}, "time": {unix(at)}}, &data)
	return data.Result, err
}

func (p prometheus) queryRange(ctx context.Context, expr string, from, to time.Time, step time.Duration) ([]series, error) {
	var data struct{ Result []series }
	err := p.get(ctx, "query_range", url.Values{
		"query": {expr}, "start": {unix(from)}, "end": {unix(to)}, "step": {fmt.Sprint(step.Seconds())},
	}, &data)
	return data.Result, err
}

func unix(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64) }
