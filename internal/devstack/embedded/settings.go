package embedded

import (
	"net/url"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/membership/static"
	sqliteplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/primitives"

	"github.com/turnstone-run/turnstone/internal/devstack"
)

const (
	clusterName = "active"
	storeName   = sqliteplugin.PluginName
)

// servicePorts are the gRPC ports of the server's four services, and the frontend's HTTP port, which Nexus uses.
type servicePorts struct{ frontend, frontendHTTP, history, matching, worker int }

// storage returns the configuration of SQLite in a file, or in memory if database is empty. Each database in memory has a name of its own, because
// the plugin shares databases of the same name within a process.
func storage(database string) *config.SQL {
	store := &config.SQL{PluginName: storeName}
	if database == "" {
		store.DatabaseName = uuid.NewString()
		store.ConnectAttributes = map[string]string{"mode": "memory", "cache": "shared"}
		return store
	}
	store.DatabaseName = (&url.URL{Path: database}).EscapedPath() // because the plugin makes a URI of it
	store.ConnectAttributes = map[string]string{
		"mode":         "rwc",
		"journal_mode": "wal",
		"synchronous":  "1", // NORMAL: a power failure may lose the last transactions, a killed process loses nothing
	}
	return store
}

// serverConfig returns the configuration of a server on one node, with one history shard and without archival, metrics and profiling.
func serverConfig(store *config.SQL, ports servicePorts) *config.Config {
	service := func(grpc, http int) config.Service {
		return config.Service{RPC: config.RPC{GRPCPort: grpc, HTTPPort: http, BindOnIP: devstack.Loopback}}
	}
	conf := &config.Config{
		Persistence: config.Persistence{
			DefaultStore:     storeName,
			VisibilityStore:  storeName,
			NumHistoryShards: 1,
			DataStores:       map[string]config.DataStore{storeName: {SQL: store}},
		},
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10,
			MasterClusterName:        clusterName,
			CurrentClusterName:       clusterName,
			ClusterInformation: map[string]cluster.ClusterInformation{
				clusterName: {Enabled: true, InitialFailoverVersion: 1, RPCAddress: devstack.HostPort(ports.frontend)},
			},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		Services: map[string]config.Service{
			string(primitives.FrontendService): service(ports.frontend, ports.frontendHTTP),
			string(primitives.HistoryService):  service(ports.history, 0),
			string(primitives.MatchingService): service(ports.matching, 0),
			string(primitives.WorkerService):   service(ports.worker, 0),
		},
		Archival: config.Archival{
			History:    config.HistoryArchival{State: "disabled"},
			Visibility: config.VisibilityArchival{State: "disabled"},
		},
		PublicClient: config.PublicClient{HostPort: devstack.HostPort(ports.frontend)},
		NamespaceDefaults: config.NamespaceDefaults{Archival: config.ArchivalNamespaceDefaults{
			History:    config.HistoryArchivalNamespaceDefaults{State: "disabled"},
			Visibility: config.VisibilityArchivalNamespaceDefaults{State: "disabled"},
		}},
	}
	conf.Global.Membership = config.Membership{MaxJoinDuration: 30 * time.Second, BroadcastAddress: devstack.Loopback}
	return conf
}

// staticHosts returns the addresses of the services, which replace the gossip protocol and its ports.
func staticHosts(conf *config.Config) map[primitives.ServiceName]static.Hosts {
	hosts := make(map[primitives.ServiceName]static.Hosts, len(conf.Services))
	for name, service := range conf.Services {
		hosts[primitives.ServiceName(name)] = static.SingleLocalHost(devstack.HostPort(service.RPC.GRPCPort))
	}
	return hosts
}

// dynamicSettings returns [devstack.DynamicSettings] as the server's dynamic configuration.
func dynamicSettings() dynamicconfig.StaticClient {
	client := make(dynamicconfig.StaticClient)
	for _, s := range devstack.DynamicSettings() {
		client[dynamicconfig.MakeKey(s.Key)] = s.Value
	}
	return client
}
