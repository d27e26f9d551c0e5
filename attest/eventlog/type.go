package eventlog

import "fmt"

// Type is the type of an event (section 10.4.1). Registers do not cover it.
type Type uint32

// Types that mean something here.
const (
	NoAction          Type = 0x00000003
	Separator         Type = 0x00000004
	Action            Type = 0x00000005
	EventTag          Type = 0x00000006
	IPL               Type = 0x0000000D
	VariableConfig    Type = 0x80000001 // EV_EFI_VARIABLE_DRIVER_CONFIG
	VariableBoot      Type = 0x80000002 // EV_EFI_VARIABLE_BOOT
	BootApplication   Type = 0x80000003 // EV_EFI_BOOT_SERVICES_APPLICATION
	EFIAction         Type = 0x80000007 // EV_EFI_ACTION
	VariableBoot2     Type = 0x8000000C // EV_EFI_VARIABLE_BOOT2
	HCRTM             Type = 0x80000010 // EV_EFI_HCRTM_EVENT
	VariableAuthority Type = 0x800000E0 // EV_EFI_VARIABLE_AUTHORITY

	DstackRuntime Type = 0x08000001 // of dstack, in RTMR3; see [ParseDstack]
)

// String returns the name that the specification gives to a type, or its number.
func (t Type) String() string {
	switch t {
	case 0x00000000:
		return "EV_PREBOOT_CERT"
	case 0x00000001:
		return "EV_POST_CODE"
	case NoAction:
		return "EV_NO_ACTION"
	case Separator:
		return "EV_SEPARATOR"
	case Action:
		return "EV_ACTION"
	case EventTag:
		return "EV_EVENT_TAG"
	case 0x00000007:
		return "EV_S_CRTM_CONTENTS"
	case 0x00000008:
		return "EV_S_CRTM_VERSION"
	case 0x00000009:
		return "EV_CPU_MICROCODE"
	case 0x0000000A:
		return "EV_PLATFORM_CONFIG_FLAGS"
	case 0x0000000B:
		return "EV_TABLE_OF_DEVICES"
	case 0x0000000C:
		return "EV_COMPACT_HASH"
	case IPL:
		return "EV_IPL"
	case 0x0000000E:
		return "EV_IPL_PARTITION_DATA"
	case 0x0000000F:
		return "EV_NONHOST_CODE"
	case 0x00000010:
		return "EV_NONHOST_CONFIG"
	case 0x00000011:
		return "EV_NONHOST_INFO"
	case 0x00000012:
		return "EV_OMIT_BOOT_DEVICE_EVENTS"
	case 0x00000013:
		return "EV_POST_CODE2"
	case DstackRuntime:
		return "dstack runtime event"
	case VariableConfig:
		return "EV_EFI_VARIABLE_DRIVER_CONFIG"
	case VariableBoot:
		return "EV_EFI_VARIABLE_BOOT"
	case BootApplication:
		return "EV_EFI_BOOT_SERVICES_APPLICATION"
	case 0x80000004:
		return "EV_EFI_BOOT_SERVICES_DRIVER"
	case 0x80000005:
		return "EV_EFI_RUNTIME_SERVICES_DRIVER"
	case 0x80000006:
		return "EV_EFI_GPT_EVENT"
	case EFIAction:
		return "EV_EFI_ACTION"
	case 0x80000008:
		return "EV_EFI_PLATFORM_FIRMWARE_BLOB"
	case 0x80000009:
		return "EV_EFI_HANDOFF_TABLES"
	case 0x8000000A:
		return "EV_EFI_PLATFORM_FIRMWARE_BLOB2"
	case 0x8000000B:
		return "EV_EFI_HANDOFF_TABLES2"
	case VariableBoot2:
		return "EV_EFI_VARIABLE_BOOT2"
	case 0x8000000D:
		return "EV_EFI_GPT_EVENT2"
	case HCRTM:
		return "EV_EFI_HCRTM_EVENT"
	case VariableAuthority:
		return "EV_EFI_VARIABLE_AUTHORITY"
	case 0x800000E1:
		return "EV_EFI_SPDM_FIRMWARE_BLOB"
	case 0x800000E2:
		return "EV_EFI_SPDM_FIRMWARE_CONFIG"
	}
	return fmt.Sprintf("type 0x%08x", uint32(t))
}
