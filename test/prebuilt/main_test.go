package main

import (
	"context"
	"net/http"
	"os"
	"testing"
	"time"
)

const (
	// actEnv makes the test binary act as the program.
	actEnv = "PREBUILT_TEST_ACT"

	// silenceEnv is then how long a server may send nothing.
	silenceEnv = "PREBUILT_TEST_SILENCE"
)

func TestMain(m *testing.M) {
	if os.Getenv(actEnv) == "" {
		os.Exit(m.Run())
	}
	silence, err := time.ParseDuration(os.Getenv(silenceEnv))
	if err != nil {
		panic(err)
	}
	os.Exit(execute(context.Background(), os.Args[1:], source{client: http.DefaultClient, silence: silence}))
}
