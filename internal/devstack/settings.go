package devstack

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
)

const (
	clusterName = "active"
	storeName   = sqliteplugin.PluginName
)

// servicePorts are the gRPC ports of the server's four services, and the frontend's HTTP port: Nexus calls between
// namespaces travel over that.
type servicePorts struct{ frontend, frontendHTTP, history, matching, worker int }

// storage is SQLite in a file, or in memory when database is empty. The plugin shares connections by their
// parameters process-wide, hence a name of its own for each database in memory.
func storage(database string) *config.SQL {
	store := &config.SQL{PluginName: storeName}
	if database == "" {
		store.DatabaseName = uuid.NewString()
		store.ConnectAttributes = map[string]string{"mode": "memory", "cache": "shared"}
		return store
	}
	store.DatabaseName = (&url.URL{Path: database}).EscapedPath() // it becomes part of a URI
	store.ConnectAttributes = map[string]string{
		"mode":         "rwc",
		"journal_mode": "wal",
		"synchronous":  "1", // NORMAL: safe against a killed process; a power cut may lose the last moment
	}
	return store
}

// serverConfig is a whole server on one node: one history shard, no archival, no metrics or profiling ports.
func serverConfig(store *config.SQL, ports servicePorts) *config.Config {
	service := func(grpc, http int) config.Service {
		return config.Service{RPC: config.RPC{GRPCPort: grpc, HTTPPort: http, BindOnIP: loopback}}
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
				clusterName: {Enabled: true, InitialFailoverVersion: 1, RPCAddress: hostPort(ports.frontend)},
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
		PublicClient: config.PublicClient{HostPort: hostPort(ports.frontend)},
		NamespaceDefaults: config.NamespaceDefaults{Archival: config.ArchivalNamespaceDefaults{
			History:    config.HistoryArchivalNamespaceDefaults{State: "disabled"},
			Visibility: config.VisibilityArchivalNamespaceDefaults{State: "disabled"},
		}},
	}
	conf.Global.Membership = config.Membership{MaxJoinDuration: 30 * time.Second, BroadcastAddress: loopback}
	return conf
}

// staticHosts tells each service where the others are, in place of the gossip ring and its ports.
func staticHosts(conf *config.Config) map[primitives.ServiceName]static.Hosts {
	hosts := make(map[primitives.ServiceName]static.Hosts, len(conf.Services))
	for name, service := range conf.Services {
		hosts[primitives.ServiceName(name)] = static.SingleLocalHost(hostPort(service.RPC.GRPCPort))
	}
	return hosts
}

// dynamicSettings raises limits that are meant for many shards on many nodes and are too low for one shard on one node.
func dynamicSettings() dynamicconfig.StaticClient {
	return dynamicconfig.StaticClient{
		// The default of 20 polls per second and shard caps a one-shard server at ten workflows per second, and
		// shows as a floor of about 99 ms under each step of a lone turn.
		dynamicconfig.TransferProcessorMaxPollRPS.Key():   2000,
		dynamicconfig.TimerProcessorMaxPollRPS.Key():      2000,
		dynamicconfig.VisibilityProcessorMaxPollRPS.Key(): 2000,
		dynamicconfig.OutboundProcessorMaxPollRPS.Key():   2000,

		dynamicconfig.FrontendRPS.Key():                                  20_000,
		dynamicconfig.HistoryRPS.Key():                                   50_000,
		dynamicconfig.MatchingRPS.Key():                                  20_000,
		dynamicconfig.FrontendPersistenceMaxQPS.Key():                    20_000,
		dynamicconfig.HistoryPersistenceMaxQPS.Key():                     50_000,
		dynamicconfig.MatchingPersistenceMaxQPS.Key():                    20_000,
		dynamicconfig.FrontendMaxNamespaceVisibilityRPSPerInstance.Key(): 500, // 10 makes the UI and lists fail
		dynamicconfig.FrontendMaxNamespaceRPSPerInstance.Key():           20_000,
		dynamicconfig.ForceSearchAttributesCacheRefreshOnRead.Key():      true, // a new attribute works at once
		dynamicconfig.ForceNexusEndpointRefreshOnRead.Key():              true,
		dynamicconfig.NamespaceCacheRefreshInterval.Key():                time.Second,
		// A close notification is missed about once in a thousand; the waiter then learns after this interval.
		dynamicconfig.HistoryLongPollExpirationInterval.Key(): 2 * time.Second,
	}
}
