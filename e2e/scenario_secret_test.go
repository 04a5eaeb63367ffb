package e2e_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/turnstone-run/turnstone/internal/app"
)

// The key of all providers of the scenarios, whose tenants share an auth profile: it is where the profile's reference says, and nowhere else.
const (
	keyProfile  = "provider-key"
	keyVariable = "TURNSTONE_SECRET_PROVIDER_KEY"
	scenarioKey = "sk-scenario-7Qz4-never-to-be-seen"
)

// keyOf is the key that a request carries, in either dialect.
func keyOf(r *http.Request) string {
	if key := r.Header.Get("X-Api-Key"); key != "" {
		return key
	}
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
}

// logged keeps what a logger says, all levels of it.
type logged struct {
	mu  sync.Mutex
	all bytes.Buffer
}

// Write implements [zapcore.WriteSyncer].
func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

// Sync implements [zapcore.WriteSyncer].
func (*logged) Sync() error { return nil }

// beside is a logger that says everything here as well.
func (l *logged) beside(to *zap.Logger) *zap.Logger {
	return to.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewTee(core, zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), l, zap.DebugLevel))
	}))
}

func requireUnsaid(t *testing.T, l *logged) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	require.NotZero(t, l.all.Len(), "the logger is heard")
	require.False(t, bytes.Contains(l.all.Bytes(), []byte(scenarioKey)), "the key is in the logs")
}

// requireUnstored looks for the key in every row of every table and in all content.
func requireUnstored(t *testing.T, set *app.Config) {
	t.Helper()
	requireNowhere(t, set, scenarioKey)
}

// requireNowhere does so for any word.
func requireNowhere(t testing.TB, set *app.Config, word string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, set.Database.URL.Reveal())
	require.NoError(t, err)
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, `SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')`)
	require.NoError(t, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Greater(t, len(tables), 15)
	stored := 0
	for _, table := range tables {
		var all, found int
		query := fmt.Sprintf(`SELECT count(*), count(*) FILTER (WHERE t::text LIKE $1 OR t::text LIKE $2) FROM %s t`, table)
		require.NoError(t, conn.QueryRow(ctx, query, "%"+word+"%", "%"+hex.EncodeToString([]byte(word))+"%").Scan(&all, &found))
		require.Zero(t, found, "rows of %s hold %q", table, word)
		stored += all
	}
	require.NotZero(t, stored)
	folder, err := url.Parse(set.Storage.BlobURL.Reveal())
	require.NoError(t, err)
	unpack, err := zstd.NewReader(nil)
	require.NoError(t, err)
	defer unpack.Close()
	require.NoError(t, filepath.WalkDir(folder.Path, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if plain, bad := unpack.DecodeAll(content, nil); bad == nil {
			content = plain
		}
		require.False(t, bytes.Contains(content, []byte(word)), "%q is in %s", word, path)
		return err
	}))
}
