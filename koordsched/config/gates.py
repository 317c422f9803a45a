"""The feature gates that koord-scheduler v1.8.0 knows: Kubernetes 1.35's and Koordinator's, with stage, default and lock.

Names are grouped, since a group says all there is to know of a gate: its stage (which AllAlpha and AllBeta switch), whether it is on, and
whether it can be changed at all. DEPENDENCIES: a gate that is on needs these on as well. WITHOUT_EFFECT: which of Koordinator's change
nothing here. Callers: `features`.
"""

from __future__ import annotations


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


ALPHA_OFF = _names(
    """
    APIServingWithRoutine AllowUnsafeMalformedObjectDeletion CBORServingAndStorage CPUManagerPolicyAlphaOptions CSIVolumeHealth
    CleanExpiredReservationAllocated ClientsAllowCBOR ClientsPreferCBOR CloudControllerManagerWatchBasedRoutesReconciliation
    CloudControllerManagerWebhook CompatibleCSIStorageCapacity CompatiblePodDisruptionBudget ComponentFlagz ComponentStatusz
    ConstrainedImpersonation ContainerStopSignals CrossNamespaceVolumeDataSource CustomCPUCFSQuotaPeriod DRAConsumableCapacity
    DRADeviceBindingConditions DRADeviceTaintRules DRADeviceTaints DRAExtendedResource DRAPartitionableDevices DevicePluginAdaption
    DisableCSIStorageCapacityInformer DisableDefaultQuota DisableDynamicResourceAllocationInformer DisablePodDisruptionBudgetInformer
    ElasticQuotaGuaranteeUsage ElasticQuotaIgnorePodOverhead ElasticQuotaIgnoreTerminatingPod ElasticQuotaImmediateIgnoreTerminatingPod
    EventedPLEG GangScheduling GenericWorkload HPAScaleToZero InPlacePodLevelResourcesVerticalScaling
    InPlacePodVerticalScalingExclusiveCPUs InPlacePodVerticalScalingExclusiveMemory InTreePluginPortworxUnregister KubeletInUserNamespace
    LazyReservationRestore LoggingAlphaOptions MemoryQoS MultiQuotaTree MutablePVNodeAffinity MutablePodResourcesForSuspendedJobs
    MutableSchedulingDirectivesForSuspendedJobs NodeDeclaredFeatures OmitNodeLabelsForReservation PodAndContainerStatsFromCRI
    PodLogsQuerySplitStreams PreemptionPolicyTransformer PriorityTransformer QOSReserved ReduceDefaultCrashLoopBackOffDecay
    RelaxedServiceNameValidation ReplaceResourcesTransformer ResizePod ResourceHealthStatus RestartAllContainersOnContainerExits
    RuntimeClassInImageCriApi SkipReservationFitsNode StorageCapacityScoring StorageVersionAPI StrictIPCIDRValidation
    SupportParentQuotaSubmitPod SyncBarrier TaintTolerationComparisonOperators TopologyManagerPolicyAlphaOptions
    UnknownVersionInteroperabilityProxy UserNamespacesHostNetworkSupport VolumeLimitScaling WindowsCPUAndMemoryAffinity
    """
)

ALPHA_ON = ("DynamicSchedulerCheck",)

BETA_OFF = _names(
    """
    CRDObservedGenerationTracking ClusterTrustBundle ClusterTrustBundleProjection ConcurrentWatchObjectDecode CoordinatedLeaderElection
    DeclarativeValidationTakeover LocalStorageCapacityIsolationFSQuotaMonitoring MutatingAdmissionPolicy NodeLogQuery
    PodCertificateRequest SELinuxMount SchedulerAsyncAPICalls StorageVersionMigrator WatchCacheInitializationPostStartHook
    """
)

BETA_ON = _names(
    """
    APIResponseCompression APIServerIdentity AllowParsingUserUIDFromCertAuth AuthorizePodWebsocketUpgradeCreatePermission
    CPUManagerPolicyBetaOptions CSIServiceAccountTokenSecrets ClearingNominatedNodeNameAfterBinding ContainerCheckpoint
    ContainerRestartRules ContextualLogging DRAAdminAccess DRAPrioritizedList DRAResourceClaimDeviceStatus DRASchedulerFilterTimeout
    DeclarativeValidation DeploymentReplicaSetTerminatingReplicas DetectCacheInconsistency DisableCPUQuotaWithExclusiveCPUs EnvFiles
    ExternalServiceAccountTokenSigner GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority HPAConfigurableTolerance
    HostnameOverride ImageVolume InOrderInformers InOrderInformersBatchProcess KubeletCrashLoopBackOffMax KubeletEnsureSecretPulledImages
    KubeletFineGrainedAuthz KubeletPSI KubeletPodResourcesDynamicResources KubeletPodResourcesGet KubeletSeparateDiskGC
    KubeletServiceAccountTokenForCredentialProviders ListFromCacheSnapshot LoggingBetaOptions MatchLabelKeysInPodTopologySpread
    MatchLabelKeysInPodTopologySpreadSelectorMerge MaxUnavailableStatefulSet MutableCSINodeAllocatableCount
    NominatedNodeNameForExpectation OpenAPIEnums OpportunisticBatching PodDeletionCost PodLevelResources
    PodReadyToStartContainersCondition PodTopologyLabelsAdmission PortForwardWebsockets PreventStaticPodAPIReferences ProcMountType
    ReloadKubeletServerCertificateFile RemoteRequestHeaderUID RotateKubeletServerCertificate SELinuxChangePolicy
    SELinuxMountReadWriteOncePod SchedulerAsyncPreemption SchedulerPopFromBackoffQ ServiceAccountNodeAudienceRestriction
    SizeBasedListCostEstimate StatefulSetSemanticRevisionComparison StorageVersionHash StructuredAuthenticationConfigurationEgressSelector
    StructuredAuthenticationConfigurationJWKSMetrics TokenRequestServiceAccountUIDValidation TopologyManagerPolicyBetaOptions
    TranslateStreamCloseWebsocketRequests UnauthenticatedHTTP2DOSMitigation UserNamespacesSupport WatchList WatchListClient
    WindowsGracefulNodeShutdown
    """
)

STABLE_ON = _names(
    """
    CSIStorageCapacity GenericEphemeralVolume InformerResourceVersion PodDisruptionBudget TopologyManagerPolicyOptions
    VolumeAttributesClass
    """
)

STABLE_LOCKED_ON = _names(
    """
    APIServerTracing AnonymousAuthConfigurableEndpoints AnyVolumeDataSource AuthorizeNodeWithSelectors AuthorizeWithSelectors
    BtreeWatchCache CPUManagerPolicyOptions CRDValidationRatcheting CSIMigrationPortworx ConsistentListFromCache
    CustomResourceFieldSelectors DisableAllocatorDualWrite DynamicResourceAllocation ExecProbeTimeout HonorPVReclaimPolicy
    ImageMaximumGCAge InPlacePodVerticalScaling JobBackoffLimitPerIndex JobManagedBy JobPodReplacementPolicy JobSuccessPolicy
    KubeletCgroupDriverFromCRI KubeletTracing LogarithmicScaleDown MatchLabelKeysInPodAffinity MemoryManager MultiCIDRServiceAllocator
    NFTablesProxyMode NodeInclusionPolicyInPodTopologySpread NodeSwap OrderedNamespaceDeletion PodLifecycleSleepAction
    PodLifecycleSleepActionAllowZero PodObservedGenerationTracking PodSchedulingReadiness PreferSameTrafficDistribution
    RecoverVolumeExpansionFailure RecursiveReadOnlyMounts RelaxedDNSSearchValidation RelaxedEnvironmentVariableValidation
    ResilientWatchCacheInitialization RetryGenerateName SchedulerQueueingHints SeparateTaintEvictionController ServiceAccountTokenJTI
    ServiceAccountTokenNodeBinding ServiceAccountTokenNodeBindingValidation ServiceAccountTokenPodNodeInfo ServiceTrafficDistribution
    SidecarContainers StreamingCollectionEncodingToJSON StreamingCollectionEncodingToProtobuf StructuredAuthenticationConfiguration
    StructuredAuthorizationConfiguration SupplementalGroupsPolicy SystemdWatchdog TopologyAwareHints WinDSR WinOverlay
    """
)

DEPRECATED_OFF = _names(
    """
    AllowDNSOnlyNodeCSR AllowInsecureKubeletCertificateSigningRequests ChangeContainerStatusOnKubeletRestart GitRepoVolumeDriver
    InPlacePodVerticalScalingAllocatedStatus KMSv1 KubeletRegistrationGetOnExistsOnly SeparateCacheWatchRPC WindowsHostNetwork
    """
)

DEPRECATED_ON = ("DisableNodeKubeProxyVersion", "KubeletPodResourcesListUseActivePods", "StorageNamespaceIndex")

DEPRECATED_LOCKED_OFF = ("AllowOverwriteTerminationGracePeriodSeconds", "WatchFromStorageWithoutResourceVersion")

DEPRECATED_LOCKED_ON = ("AggregatedDiscoveryRemoveBetaType",)

DEPENDENCIES: dict[str, tuple[str, ...]] = {
    "AuthorizeNodeWithSelectors": ("AuthorizeWithSelectors",),
    "ClusterTrustBundleProjection": ("ClusterTrustBundle",),
    "DRAAdminAccess": ("DynamicResourceAllocation",),
    "DRAConsumableCapacity": ("DynamicResourceAllocation",),
    "DRADeviceBindingConditions": ("DRAResourceClaimDeviceStatus", "DynamicResourceAllocation"),
    "DRADeviceTaintRules": ("DRADeviceTaints",),
    "DRADeviceTaints": ("DynamicResourceAllocation",),
    "DRAExtendedResource": ("DynamicResourceAllocation",),
    "DRAPartitionableDevices": ("DynamicResourceAllocation",),
    "DRAPrioritizedList": ("DynamicResourceAllocation",),
    "DRASchedulerFilterTimeout": ("DynamicResourceAllocation",),
    "DeclarativeValidationTakeover": ("DeclarativeValidation",),
    "DisableAllocatorDualWrite": ("MultiCIDRServiceAllocator",),
    "GangScheduling": ("GenericWorkload",),
    "GracefulNodeShutdownBasedOnPodPriority": ("GracefulNodeShutdown",),
    "InPlacePodLevelResourcesVerticalScaling": ("InPlacePodVerticalScaling", "NodeDeclaredFeatures", "PodLevelResources"),
    "InPlacePodVerticalScalingAllocatedStatus": ("InPlacePodVerticalScaling",),
    "InPlacePodVerticalScalingExclusiveCPUs": ("InPlacePodVerticalScaling",),
    "InPlacePodVerticalScalingExclusiveMemory": ("InPlacePodVerticalScaling", "MemoryManager"),
    "MatchLabelKeysInPodTopologySpreadSelectorMerge": ("MatchLabelKeysInPodTopologySpread",),
    "PodCertificateRequest": ("AuthorizeNodeWithSelectors",),
    "PodLifecycleSleepActionAllowZero": ("PodLifecycleSleepAction",),
    "ProcMountType": ("UserNamespacesSupport",),
    "ResourceHealthStatus": ("DynamicResourceAllocation",),
    "RestartAllContainersOnContainerExits": ("ContainerRestartRules", "NodeDeclaredFeatures"),
    "ServiceAccountTokenNodeBinding": ("ServiceAccountTokenNodeBindingValidation",),
    "StorageVersionAPI": ("APIServerIdentity",),
    "StructuredAuthenticationConfigurationEgressSelector": ("StructuredAuthenticationConfiguration",),
    "StructuredAuthenticationConfigurationJWKSMetrics": ("StructuredAuthenticationConfiguration",),
    "UnknownVersionInteroperabilityProxy": ("APIServerIdentity",),
    "UserNamespacesHostNetworkSupport": ("UserNamespacesSupport",),
    "WindowsCPUAndMemoryAffinity": ("MemoryManager",),
    "WindowsGracefulNodeShutdown": ("GracefulNodeShutdown",),
}

WITHOUT_EFFECT: dict[str, str] = {
    "DisableDynamicResourceAllocationInformer": "no object of resource.k8s.io is watched",
    "GenericEphemeralVolume": "the reference does not ask it either: ephemeral volumes are a part of every Kubernetes since 1.23",
    "LazyReservationRestore": "no node is copied for the owner of a reservation, early or late",
    "PodDisruptionBudget": "no plugin evicts without looking at budgets; DisablePodDisruptionBudgetInformer keeps them from being read",
    "SupportParentQuotaSubmitPod": "it is koord-manager's, whose rules `validate --objects` applies",
}
"""Koordinator's gates (frameworkext.md §1.3) that change nothing in the scheduler, and why; start-up names those that are changed."""
