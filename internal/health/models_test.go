package health_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/health"
)

type model struct{ err error }

func (m *model) Generate(_ context.Context, _ agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
	if err := emit(agent.Delta{}); err != nil {
		return agent.ModelReply{}, err
	}
	return agent.ModelReply{}, m.err
}

type able struct{ model }

func (*able) Capabilities() agent.Capabilities { return agent.Capabilities{OutputSchema: true} }

func TestOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o health.Outcomes
		b := board(t, o.Probe(nil))
		read := func() health.Reading {
			time.Sleep(2 * time.Second)
			return b.Read(t.Context())[0]
		}
		require.Equal(t, health.OK, read().State, "nothing was called")
		m := &model{}
		watched := o.Watch("gpt-4o", m)
		call := func() {
			_, _ = watched.Generate(t.Context(), agent.ModelRequest{}, func(agent.Delta) error { return nil })
		}
		call()
		require.Contains(t, read().Detail, "1 profiles called")
		for code, hint := range map[agent.Code]string{
			agent.CodeUnauthenticated: "refuses the key", agent.CodeDenied: "refuses the key", agent.CodeRateLimited: "raise the quota",
			agent.CodeUnavailable: "status page", agent.CodeInternal: "starter doctor --model", agent.CodeNotFound: "Set the variable",
		} {
			m.err = agent.Errorf(code, "", "no")
			call()
			r := read()
			require.Equal(t, health.Degraded, r.State, code)
			require.Contains(t, r.Hint, hint, code)
			require.Contains(t, r.Detail, "gpt-4o: "+string(code))
		}
		require.Contains(t, read().Detail, "6 in a row")

		m.err = agent.Errorf(agent.CodeCancelled, "", "given up")
		call()
		require.Equal(t, health.Degraded, read().State, "says nothing about the provider")
		m.err = nil
		call()
		require.Equal(t, health.OK, read().State)

		m.err = agent.Errorf(agent.CodeUnavailable, "", "no")
		call()
		require.Equal(t, health.Degraded, read().State)
		time.Sleep(16 * time.Minute)
		require.Equal(t, health.OK, read().State, "an old failure is no news")

		_, err := watched.Generate(t.Context(), agent.ModelRequest{}, func(agent.Delta) error { return errors.New("full") })
		require.Error(t, err)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = watched.Generate(gone, agent.ModelRequest{}, func(agent.Delta) error { return nil })
		require.Error(t, err)
		require.Equal(t, health.OK, read().State, "neither was the model's fault")
	})
}

func TestOutcomesKeepWhatAModelCanDo(t *testing.T) {
	var o health.Outcomes
	_, ok := o.Watch("a", &model{}).(agent.Capable)
	require.False(t, ok)
	c, ok := o.Watch("a", &able{}).(agent.Capable)
	require.True(t, ok)
	require.True(t, c.Capabilities().OutputSchema)
}

func TestOutcomesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o health.Outcomes
		for i := range 600 {
			time.Sleep(time.Millisecond)
			o.Note(fmt.Sprintf("p%d", i), nil)
		}
		require.Contains(t, ask(t, o.Probe(nil)).Detail, "500 profiles")
	})
}

func TestMissingKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		var o health.Outcomes
		b := board(t, o.Probe(func(context.Context) ([]string, error) {
			asked++
			return []string{"gpt-4o: the environment has no OPENAI_API_KEY"}, nil
		}))
		for range 30 {
			r := b.Read(t.Context())[0]
			require.Equal(t, health.Degraded, r.State)
			require.Contains(t, r.Hint, "Set the variable")
			require.Contains(t, r.Detail, "OPENAI_API_KEY")
			time.Sleep(1500 * time.Millisecond)
		}
		require.Equal(t, 1, asked, "once a minute")
	})
	var o health.Outcomes
	r := ask(t, o.Probe(func(context.Context) ([]string, error) { return nil, errors.New("no") }))
	require.Equal(t, health.Degraded, r.State)
}

// pair writes a certificate that ends at a time, and its key.
func pair(t *testing.T, until time.Time) [2]string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-30 * 24 * time.Hour), NotAfter: until}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	folder := t.TempDir()
	files := [2]string{filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")}
	require.NoError(t, os.WriteFile(files[0], pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600))
	require.NoError(t, os.WriteFile(files[1], pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	return files
}

func TestCertificates(t *testing.T) {
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		left time.Duration
		want health.State
	}{"a year": {365 * day, health.OK}, "15 days": {15 * day, health.OK}, "13 days": {13*day + time.Hour, health.Degraded}, "ended": {-day, health.Degraded}} {
		r := ask(t, health.CertificateProbe(map[string][2]string{"http.tls_cert": pair(t, time.Now().Add(c.left))}))
		require.Equal(t, c.want, r.State, "%s: %s", name, r.Detail)
		require.Contains(t, r.Detail, "http.tls_cert end", name)
	}
	good := pair(t, time.Now().Add(365*day))
	r := ask(t, health.CertificateProbe(map[string][2]string{"http.tls_cert": good, "grpc.tls_cert": {"/nowhere.pem", "/nowhere.key"}}))
	require.Equal(t, health.Degraded, r.State)
	require.Contains(t, r.Detail, "grpc.tls_cert: ")
	require.Contains(t, r.Hint, "Replace the certificate")
	text, well := health.Validity(time.Unix(14*86400, 0), time.Unix(0, 0))
	require.True(t, well)
	require.Equal(t, "ends on 1970-01-15", text)
}
