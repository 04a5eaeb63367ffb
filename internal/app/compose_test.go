package app_test

import (
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/blob"
	"github.com/turnstone-run/turnstone/workflows"
)

const (
	composeFile = "../../docker-compose.yml"
	loopback    = "127.0.0.1"
)

// foreign are variables in the worker's environment that other libraries read: the S3 driver of the blob store.
var foreign = []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}

// compose reads docker-compose.yml as `docker compose` does, in an environment that holds env and nothing else.
func compose(t *testing.T, env ...string) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{composeFile}, cli.WithEnv(env))
	require.NoError(t, err)
	project, err := options.LoadProject(t.Context())
	require.NoError(t, err)
	require.Contains(t, project.Services, "worker")
	return project
}

func environment(s types.ServiceConfig) map[string]string {
	return s.Environment.Resolve(func(string) (string, bool) { return "", false }).ToMapping()
}

func TestComposeNeedsNoVariable(t *testing.T) {
	content, err := os.ReadFile(composeFile)
	require.NoError(t, err)
	found := regexp.MustCompile(`[^$]\$(\{?\w+)(:-)?`).FindAllSubmatch(content, -1)
	require.NotEmpty(t, found)
	for _, m := range found {
		require.Equal(t, ":-", string(m[2]), "%s has no default", m[1])
	}
}

func TestComposeImagesArePinned(t *testing.T) {
	pinned := regexp.MustCompile(`:(v?\d+\.\d+[\w.-]*|RELEASE\.\d{4}[\w-]+)$`)
	for name, s := range compose(t).Services {
		if s.Build == nil {
			require.Regexp(t, pinned, s.Image, name)
		}
	}
	for _, moving := range []string{"redis:latest", "redis", "redis:8", "minio:RELEASE"} {
		require.NotRegexp(t, pinned, moving)
	}
}

// TestComposeWaits holds that everything that runs says when it is healthy, and that everything waited for can be waited for.
func TestComposeWaits(t *testing.T) {
	project := compose(t)
	jobs := map[string]bool{}
	for name, s := range project.Services {
		for other, d := range s.DependsOn {
			require.NotEqual(t, types.ServiceConditionStarted, d.Condition, "%s does not wait until %s is of use", name, other)
			jobs[other] = jobs[other] || d.Condition == types.ServiceConditionCompletedSuccessfully
		}
	}
	for name, s := range project.Services {
		if jobs[name] {
			require.Nil(t, s.HealthCheck, "%s ends", name)
			require.True(t, strings.HasPrefix(s.Restart, "on-failure:"), "%s ends", name)
			continue
		}
		require.NotNil(t, s.HealthCheck, name)
		require.Greater(t, len(s.HealthCheck.Test), 1, name)
		require.NotNil(t, s.HealthCheck.Timeout, name)
		require.NotNil(t, s.HealthCheck.Retries, name)
		require.Equal(t, types.RestartPolicyUnlessStopped, s.Restart, name)
	}
	require.GreaterOrEqual(t, time.Duration(*project.Services["worker"].StopGracePeriod), app.Default().ShutdownTimeout+app.Default().Jobs.DrainTimeout+5*time.Second,
		"a drain must not be cut off")
}

// Jobs under way have 30 s after a stop signal, and what shutdown_timeout bounds comes after.
func TestStopTimeout(t *testing.T) {
	c := app.Default()
	require.Equal(t, c.ShutdownTimeout, c.StopTimeout(), "no jobs, nothing to drain")
	c.Jobs.RedisURL = "redis://127.0.0.1:6379"
	require.Equal(t, 30*time.Second, c.Jobs.DrainTimeout)
	require.Equal(t, c.ShutdownTimeout+30*time.Second, c.StopTimeout())
}

func TestComposeVolumes(t *testing.T) {
	project := compose(t)
	used := map[string]bool{}
	for name, s := range project.Services {
		for _, v := range s.Volumes {
			if v.Type == types.VolumeTypeVolume {
				used[v.Source] = true
				continue
			}
			require.Equal(t, "worker", name, "mounts a folder of this machine")
			require.True(t, v.ReadOnly, v.Target)
			require.Equal(t, environment(s)["TURNSTONE_CATALOG_FOLDER"], v.Target)
		}
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(project.Volumes)), slices.Collect(maps.Keys(used)))
	for _, stateful := range []string{"postgres", "temporal-postgres", "minio", "redis", "worker"} {
		require.NotEmpty(t, project.Services[stateful].Volumes, stateful)
	}
}

// TestComposePorts holds the published ports against the defaults of clients, and that none is open to the network.
func TestComposePorts(t *testing.T) {
	project, d := compose(t), app.Default()
	temporal, err := app.TemporalOptions(d.Temporal, nil)
	require.NoError(t, err)
	published := map[string][]string{}
	for name, s := range project.Services {
		for _, p := range s.Ports {
			require.Equal(t, loopback, p.HostIP, "%s is published beyond this machine", name)
			require.Equal(t, p.Published, strconv.Itoa(int(p.Target)), name)
			published[name] = append(published[name], net.JoinHostPort(loopback, p.Published))
		}
	}
	require.Equal(t, []string{d.HTTP.Addr, d.GRPC.Addr}, published["worker"])
	require.Equal(t, []string{temporal.HostPort}, published["temporal"])
	require.Equal(t, []string{"127.0.0.1:8233"}, published["temporal-ui"])
}

// TestComposeWorkerIsConfigured loads the worker's environment as the worker does.
func TestComposeWorkerIsConfigured(t *testing.T) {
	for key, provider := range map[string]string{
		"": app.ProviderOffline, "OPENAI_API_KEY=sk-test": app.ProviderOpenAI, "ANTHROPIC_API_KEY=sk-test": app.ProviderAnthropic,
	} {
		worker := compose(t, key).Services["worker"]
		var env []string
		for name, value := range environment(worker) {
			require.Contains(t, append(app.Variables(), foreign...), name, "nobody reads this variable")
			env = append(env, name+"="+value)
		}
		cfg, err := app.Load(sources(t, "", env))
		require.NoError(t, err)
		require.Empty(t, cfg.Warnings())
		require.Equal(t, provider, cfg.LLM.Provider)
		require.Equal(t, key == "", cfg.WantsOfflineModel())
		checkComposeWorker(t, &worker, cfg)
	}
}

func checkComposeWorker(t *testing.T, worker *types.ServiceConfig, cfg *app.Config) {
	t.Helper()
	ui := compose(t).Services["temporal-ui"].Ports[0]
	require.Equal(t, "http://"+net.JoinHostPort(ui.HostIP, ui.Published), cfg.Console.UIURL)
	for path, addr := range map[string]string{"http.addr": cfg.HTTP.Addr, "grpc.addr": cfg.GRPC.Addr} {
		host, port, err := net.SplitHostPort(addr)
		require.NoError(t, err)
		require.Empty(t, host, "%s: loopback in a container cannot be reached", path)
		require.True(t, slices.ContainsFunc(worker.Ports, func(p types.ServicePortConfig) bool { return strconv.Itoa(int(p.Target)) == port }),
			"%s is not published", path)
	}
	store, err := blob.Open(t.Context(), cfg.Storage.BlobURL.Reveal())
	require.NoError(t, err, "storage.blob_url")
	require.NoError(t, store.Close())
}

// TestComposeCredentialsFit changes every password and expects both sides to follow.
func TestComposeCredentialsFit(t *testing.T) {
	p := compose(t, "TURNSTONE_POSTGRES_PASSWORD=p1", "TEMPORAL_POSTGRES_PASSWORD=p2", "MINIO_ROOT_USER=u3", "MINIO_ROOT_PASSWORD=p3")
	env := func(service string) map[string]string { return environment(p.Services[service]) }
	worker := env("worker")

	db, err := url.Parse(worker["DATABASE_URL"])
	require.NoError(t, err)
	password, _ := db.User.Password()
	require.Equal(t, "p1", password)
	want := map[string]string{"POSTGRES_USER": db.User.Username(), "POSTGRES_PASSWORD": password, "POSTGRES_DB": strings.TrimPrefix(db.Path, "/")}
	require.Equal(t, want, env("postgres"))

	require.Equal(t, "p2", env("temporal-postgres")["POSTGRES_PASSWORD"])
	require.Equal(t, "p2", env("temporal")["POSTGRES_PWD"])
	require.Equal(t, "p2", env("temporal-schema")["SQL_PASSWORD"])
	require.Equal(t, env("temporal-postgres")["POSTGRES_USER"], env("temporal")["POSTGRES_USER"])
	require.Equal(t, env("temporal-postgres")["POSTGRES_USER"], env("temporal-schema")["SQL_USER"])
	require.Equal(t, env("temporal-schema")["SQL_PLUGIN"], env("temporal")["DB"])

	require.Equal(t, map[string]string{"MINIO_ROOT_USER": "u3", "MINIO_ROOT_PASSWORD": "p3"}, env("minio"))
	require.Equal(t, env("minio"), env("minio-bucket"))
	require.Equal(t, env("minio")["MINIO_ROOT_USER"], worker["AWS_ACCESS_KEY_ID"])
	require.Equal(t, env("minio")["MINIO_ROOT_PASSWORD"], worker["AWS_SECRET_ACCESS_KEY"])
}

// TestComposeAddresses finds every service:port that one service is told about another, and wants the other to exist, to listen
// there, and to be up before.
func TestComposeAddresses(t *testing.T) {
	project := compose(t)
	hostPort := regexp.MustCompile(`\b([a-z][a-z-]*):(\d{2,5})\b`)
	checked := map[string]bool{}
	for name, s := range project.Services {
		texts := slices.Concat(slices.Collect(maps.Values(environment(s))), s.Command, s.Entrypoint)
		for host, port := range map[string]string{"SQL_HOST": "SQL_PORT", "POSTGRES_SEEDS": "DB_PORT"} {
			if env := environment(s); env[host] != "" {
				texts = append(texts, env[host]+":"+env[port])
			}
		}
		for _, m := range hostPort.FindAllStringSubmatch(strings.Join(texts, "\n"), -1) {
			host, port := m[1], m[2]
			other, ok := project.Services[host]
			require.True(t, ok, "%s is told about %s, which is no service", name, m[0])
			require.Contains(t, listens(other), port, "%s is told about %s", name, m[0])
			require.True(t, waitsFor(project, name, host), "%s does not wait for %s", name, host)
			checked[m[0]] = true
		}
	}
	require.ElementsMatch(t, []string{"postgres:5432", "temporal:7233", "minio:9000", "temporal-postgres:5432", "redis:6379"}, slices.Collect(maps.Keys(checked)))
}

func listens(s types.ServiceConfig) []string {
	ports := slices.Clone([]string(s.Expose))
	for _, p := range s.Ports {
		ports = append(ports, strconv.Itoa(int(p.Target)))
	}
	return ports
}

func waitsFor(project *types.Project, name, other string) bool {
	for d := range project.Services[name].DependsOn {
		if d == other || waitsFor(project, d, other) {
			return true
		}
	}
	return false
}

func TestComposePreparesTheNamespace(t *testing.T) {
	job := compose(t, "TEMPORAL_NAMESPACE=ours").Services["temporal-namespace"]
	require.Equal(t, "ours", environment(job)["TEMPORAL_NAMESPACE"])
	words := strings.Fields(strings.ReplaceAll(strings.Join(job.Command, "\n"), ";", " "))
	for _, name := range []string{workflows.AttributeTenant, workflows.AttributeAgent, workflows.AttributeSession} {
		require.Contains(t, words, name)
	}
	require.Equal(t, "ours", environment(compose(t, "TEMPORAL_NAMESPACE=ours").Services["worker"])["TEMPORAL_NAMESPACE"])
}

// TestDockerfile holds the image against the configuration: known variables, the default ports, pinned bases, no root.
func TestDockerfile(t *testing.T) {
	content, err := os.ReadFile(filepath.FromSlash("../../Dockerfile"))
	require.NoError(t, err)
	lines := strings.Split(string(content), "\n")
	instructions := func(name string) (args []string) {
		for _, line := range lines {
			if rest, ok := strings.CutPrefix(line, name+" "); ok {
				args = append(args, rest)
			}
		}
		require.NotEmpty(t, args, name)
		return args
	}

	for _, env := range instructions("ENV") {
		name, _, _ := strings.Cut(env, "=")
		require.Contains(t, app.Variables(), name)
	}
	d := app.Default()
	_, httpPort, err := net.SplitHostPort(d.HTTP.Addr)
	require.NoError(t, err)
	_, grpcPort, err := net.SplitHostPort(d.GRPC.Addr)
	require.NoError(t, err)
	require.Equal(t, []string{httpPort + " " + grpcPort}, instructions("EXPOSE"))
	require.NotContains(t, string(content), ":latest")
	require.Equal(t, []string{"65532:65532"}, instructions("USER"))

	module, err := os.ReadFile(filepath.FromSlash("../../go.mod"))
	require.NoError(t, err)
	version := regexp.MustCompile(`(?m)^go (\S+)$`).FindSubmatch(module)
	require.NotNil(t, version)
	from := instructions("FROM")
	require.Contains(t, from[0], "golang:"+string(version[1])+"-")
	require.Equal(t, "gcr.io/distroless/static-debian12:nonroot", from[len(from)-1])
}
