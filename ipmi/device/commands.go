package device

// command is a command of the BMC.
type command struct {
	name          string
	netfn, number uint8
	answer        int // bytes that its answer has at least, without the completion code
}

// Network functions (IPMI 2.0, table 5-1).
const (
	netfnChassis   = 0x00
	netfnSensor    = 0x04
	netfnApp       = 0x06
	netfnStorage   = 0x0a
	netfnTransport = 0x0c
)

// Commands (IPMI 2.0, appendix G), each with the section that describes it.
var (
	getDeviceID    = command{"Get Device ID", netfnApp, 0x01, 11}   // 20.1
	getSystemGUID  = command{"Get System GUID", netfnApp, 0x37, 16} // 22.14
	getChannelInfo = command{"Get Channel Info", netfnApp, 0x42, 2} // 22.24, as far as it is read

	getLANParameter = command{"Get LAN Configuration Parameters", netfnTransport, 0x02, 1} // 23.2

	getChassisStatus = command{"Get Chassis Status", netfnChassis, 0x01, 3}       // 28.2
	getRestartCause  = command{"Get System Restart Cause", netfnChassis, 0x07, 1} // 28.11

	getSELInfo  = command{"Get SEL Info", netfnStorage, 0x40, 14} // 31.2
	reserveSEL  = command{"Reserve SEL", netfnStorage, 0x42, 2}   // 31.4
	getSELEntry = command{"Get SEL Entry", netfnStorage, 0x43, 2} // 31.5
	getSELTime  = command{"Get SEL Time", netfnStorage, 0x48, 4}  // 31.10

	getSDRInfo = command{"Get SDR Repository Info", netfnStorage, 0x20, 14} // 33.9
	reserveSDR = command{"Reserve SDR Repository", netfnStorage, 0x22, 2}   // 33.11
	getSDR     = command{"Get SDR", netfnStorage, 0x23, 2}                  // 33.12

	getDeviceSDRInfo = command{"Get Device SDR Info", netfnSensor, 0x20, 2}           // 35.2
	getDeviceSDR     = command{"Get Device SDR", netfnSensor, 0x21, 2}                // 35.3
	reserveDeviceSDR = command{"Reserve Device SDR Repository", netfnSensor, 0x22, 2} // 35.4

	getReadingFactors   = command{"Get Sensor Reading Factors", netfnSensor, 0x23, 7} // 35.5
	getSensorThresholds = command{"Get Sensor Thresholds", netfnSensor, 0x27, 7}      // 35.9
	getSensorReading    = command{"Get Sensor Reading", netfnSensor, 0x2d, 2}         // 35.14
)
