; Not run: written for Inno Setup 6 on Windows, where nobody has built it yet.
;   pyinstaller --noconfirm packaging\decodeck.spec
;   iscc /DVersion=0.1.0 packaging\windows\decodeck.iss
; Installs for one person, without an administrator. Uninstalling removes the program and what this script wrote to
; the registry; chats, settings and models lie in the person's own folders and stay.

#ifndef Version
  #error Give the version: iscc /DVersion=...
#endif

[Setup]
AppId={{0E7B5C57-3B1C-4C0C-9C65-6B2C9B0F4B7D}
AppName=Decodeck
AppVersion={#Version}
AppPublisher=The Decodeck contributors
DefaultDirName={localappdata}\Programs\Decodeck
DisableProgramGroupPage=yes
PrivilegesRequired=lowest
ArchitecturesAllowed=x64compatible
ArchitecturesInstallIn64BitMode=x64compatible
MinVersion=10.0.17763
ChangesAssociations=yes
LicenseFile=..\..\LICENSE
SetupIconFile=..\..\build\icons\decodeck.ico
UninstallDisplayIcon={app}\decodeck-window.exe
OutputDir=..\..\dist
OutputBaseFilename=Decodeck-{#Version}-x64
Compression=lzma2
SolidCompression=yes

[Languages]
Name: "en"; MessagesFile: "compiler:Default.isl"
Name: "de"; MessagesFile: "compiler:Languages\German.isl"

[Tasks]
Name: "gguf"; Description: "{cm:AssocFileExtension,Decodeck,.gguf}"

[Files]
Source: "..\..\dist\decodeck\*"; DestDir: "{app}"; Flags: recursesubdirs ignoreversion

[InstallDelete]
; What an older version had and this one has not must not be found by the new one.
Type: filesandordirs; Name: "{app}\_internal"

[Icons]
Name: "{autoprograms}\Decodeck"; Filename: "{app}\decodeck-window.exe"

[Registry]
; Offered under "Open with" always, and by a double click where the person chose that.
Root: HKCU; Subkey: "Software\Classes\Decodeck.gguf"; ValueType: string; ValueData: "GGUF model"; Flags: uninsdeletekey
Root: HKCU; Subkey: "Software\Classes\Decodeck.gguf\DefaultIcon"; ValueType: string; ValueData: "{app}\decodeck-window.exe,0"
Root: HKCU; Subkey: "Software\Classes\Decodeck.gguf\shell\open\command"; ValueType: string; ValueData: """{app}\decodeck-window.exe"" ""%1"""
Root: HKCU; Subkey: "Software\Classes\.gguf\OpenWithProgids"; ValueType: string; ValueName: "Decodeck.gguf"; Flags: uninsdeletevalue
Root: HKCU; Subkey: "Software\Classes\.gguf"; ValueType: string; ValueData: "Decodeck.gguf"; Flags: uninsdeletevalue; Tasks: gguf

[Run]
Filename: "{app}\decodeck-window.exe"; Description: "{cm:LaunchProgram,Decodeck}"; Flags: nowait postinstall skipifsilent
