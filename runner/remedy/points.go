package remedy

import "context"

type pointsKey struct{}

// WithPoints returns a context under which Reached calls f. Crash tests stop the
// process there.
func WithPoints(ctx context.Context, f func(point string)) context.Context {
	return context.WithValue(ctx, pointsKey{}, f)
}

// Reached says that an execution has come to a point right before or after a side
// effect, at which a crash has to be survived.
func Reached(ctx context.Context, point string) {
	if f, ok := ctx.Value(pointsKey{}).(func(string)); ok {
		f(point)
	}
}
